"""Forms and panels, made of plain ipywidgets.

Nothing here touches the shell or prints. Only modules of this folder import ipywidgets, to keep `%load_ext` fast.
"""
