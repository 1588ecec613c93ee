"""Values of a namespace, for those who may read only some of them."""
