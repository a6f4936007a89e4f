"""Constructors as they are at run time, where they are made from scikit-learn's; methods are scikit-learn's own."""

from typing import Any

from sklearn import neighbors as theirs

from ._inputs import Memory, Progress

__all__: list[str]

class _KNeighbors:
    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any: ...

class _RadiusNeighbors:
    def radius_neighbors(
        self, X: Any = None, radius: float | None = None, return_distance: bool = True, sort_results: bool = False
    ) -> Any: ...

class NearestNeighbors(_KNeighbors, _RadiusNeighbors, theirs.NearestNeighbors):
    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        radius: float = 1.0,
        algorithm: str = "auto",
        leaf_size: int = 30,
        metric: Any = "minkowski",
        p: float | None = 2,
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
        memory: Memory = None,
        progress: Progress = None,
    ) -> None: ...

class KNeighborsTransformer(_KNeighbors, theirs.KNeighborsTransformer):
    def __init__(
        self,
        *,
        mode: str = "distance",
        n_neighbors: int = 5,
        algorithm: str = "auto",
        leaf_size: int = 30,
        metric: Any = "minkowski",
        p: float | None = 2,
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
        memory: Memory = None,
        progress: Progress = None,
    ) -> None: ...

class RadiusNeighborsTransformer(_RadiusNeighbors, theirs.RadiusNeighborsTransformer):
    def __init__(
        self,
        *,
        mode: str = "distance",
        radius: float = 1.0,
        algorithm: str = "auto",
        leaf_size: int = 30,
        metric: Any = "minkowski",
        p: float | None = 2,
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
        memory: Memory = None,
        progress: Progress = None,
    ) -> None: ...

class KNeighborsClassifier(_KNeighbors, theirs.KNeighborsClassifier):
    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: Any = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 30,
        p: float | None = 2,
        metric: Any = "minkowski",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
        memory: Memory = None,
        progress: Progress = None,
    ) -> None: ...
    def predict_proba(self, X: Any) -> Any: ...

class KNeighborsRegressor(_KNeighbors, theirs.KNeighborsRegressor):
    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: Any = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 30,
        p: float | None = 2,
        metric: Any = "minkowski",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
        memory: Memory = None,
        progress: Progress = None,
    ) -> None: ...

class RadiusNeighborsClassifier(_RadiusNeighbors, theirs.RadiusNeighborsClassifier):
    def __init__(
        self,
        radius: float = 1.0,
        *,
        weights: Any = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 30,
        p: float | None = 2,
        metric: Any = "minkowski",
        outlier_label: Any = None,
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
        memory: Memory = None,
        progress: Progress = None,
    ) -> None: ...
    def predict_proba(self, X: Any) -> Any: ...

class RadiusNeighborsRegressor(_RadiusNeighbors, theirs.RadiusNeighborsRegressor):
    def __init__(
        self,
        radius: float = 1.0,
        *,
        weights: Any = "uniform",
        algorithm: str = "auto",
        leaf_size: int = 30,
        p: float | None = 2,
        metric: Any = "minkowski",
        metric_params: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        device: str = "auto",
        memory: Memory = None,
        progress: Progress = None,
    ) -> None: ...

class LocalOutlierFactor(_KNeighbors, theirs.LocalOutlierFactor):
    def __init__(
        self,
        n_neighbors: int = 20,
        *,
        algorithm: str = "auto",
        leaf_size: int = 30,
        metric: Any = "minkowski",
        p: float | None = 2,
        metric_params: dict[str, Any] | None = None,
        contamination: float | str = "auto",
        novelty: bool = False,
        n_jobs: int | None = None,
        device: str = "auto",
        memory: Memory = None,
        progress: Progress = None,
    ) -> None: ...

def kneighbors_graph(
    X: Any,
    n_neighbors: int,
    *,
    mode: str = "connectivity",
    metric: Any = "minkowski",
    p: float | None = 2,
    metric_params: dict[str, Any] | None = None,
    include_self: bool | str = False,
    n_jobs: int | None = None,
    device: str = "auto",
    memory: Memory = None,
    progress: Progress = None,
) -> Any: ...

def radius_neighbors_graph(
    X: Any,
    radius: float,
    *,
    mode: str = "connectivity",
    metric: Any = "minkowski",
    p: float | None = 2,
    metric_params: dict[str, Any] | None = None,
    include_self: bool | str = False,
    n_jobs: int | None = None,
    device: str = "auto",
    memory: Memory = None,
    progress: Progress = None,
) -> Any: ...
