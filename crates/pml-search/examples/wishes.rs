//! Writes `model/wishes.bin` from `model/wishes.tsv`: what each wish means, as the table and the encoder say it. A test
//! fails if the two files differ.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("model");
    let list = fs::read_to_string(model.join("wishes.tsv"))?;
    fs::write(model.join("wishes.bin"), pml_search::wishes::directions(&pml_search::Both::built_in(), &list))
}
