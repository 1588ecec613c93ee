"""What a person clicks: forms, made of plain ipywidgets.

Values go in, values come out: nothing here touches the shell, prints or displays. ipywidgets is imported by the
modules of this folder only, so that `%load_ext` does not pay for it.
"""
