# What musadoctor uses of ClusterShell, which ships no types.
