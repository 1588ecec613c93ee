"""Forms and panels, made of plain ipywidgets.

Nothing here touches the shell, prints or displays. Only this folder imports ipywidgets, to keep `%load_ext` fast.
"""
