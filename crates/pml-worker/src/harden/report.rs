//! Reports of the walls.

use pml_wire::hardening::{Layer, LayerReport};

fn enforced(layer: Layer, detail: impl Into<String>) -> LayerReport {
    LayerReport { layer, enforced: true, detail: detail.into() }
}

fn missing(layer: Layer, detail: impl ToString) -> LayerReport {
    LayerReport { layer, enforced: false, detail: detail.to_string() }
}

/// The outcome of building one wall.
pub(super) fn layer<E: ToString>(layer: Layer, built: Result<String, E>) -> LayerReport {
    match built {
        Ok(detail) => enforced(layer, detail),
        Err(err) => missing(layer, err),
    }
}
