"""The calls of other libraries, answered by vicinal: change an import, keep the program::

    from vicinal.compat import faiss                       # faiss.knn, IndexFlatL2, IndexFlatIP, IndexFlat, knn_gpu
    from vicinal.compat.cuvs import brute_force, select_k
    from vicinal.compat.hloc import NearestNeighbor, match_from_paths
    from vicinal.compat.kornia import match_nn, match_mnn, match_snn, match_smnn, match_fginn
    from vicinal.compat.opencv import BFMatcher
    from vicinal.compat.opentsne import KNNIndex           # TSNE(neighbors=KNNIndex(x, k=90))
    from vicinal.compat.pynndescent import NNDescent       # UMAP(precomputed_knn=(*index.neighbor_graph, index))
    from vicinal.compat.pytorch3d import knn_points
    from vicinal.compat.torch import topk
    from vicinal.compat.torch_cluster import knn, knn_graph, radius, radius_graph

Each returns what the other does: types, squared or not, what stands for a missing neighbour, self or no self. Where
the other is silent about ties, the smaller id comes first; where it returns garbage, there is an error. None of these
needs the library that it stands for, but for openTSNE, whose class it is.
"""
