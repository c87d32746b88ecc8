//! The life of one worker: lock, say `Ready`, run one program, leave.

use pml_wire::{
    Kind,
    hardening::HardeningReport,
    message::{Analyse, Analysis, Init, PROTOCOL_VERSION, Ready},
};

use crate::{
    engine::Session,
    harden::{self, WorkerLimits},
    last_words, transpile,
};

/// Serves one run on standard input, in a process that [`harden::prepare`] has prepared.
pub(crate) fn serve(session: &Session<'_>, prepared: &HardeningReport, limits: WorkerLimits) -> ! {
    session.reseed();
    let hardening = harden::lock(prepared, limits);
    let ready = Ready { version: PROTOCOL_VERSION, hardening };
    session.channel().send_json(Kind::Ready, &ready);
    session.channel().flush();

    let frame = session.channel().receive();
    let unreadable = |err: serde_json::Error| last_words::fail(&format!("the program cannot be read: {err}"));
    match frame.kind {
        Kind::Init => match serde_json::from_slice::<Init>(&frame.body) {
            Ok(init) => session.run(&init),
            Err(err) => unreadable(err),
        },
        Kind::Analyse => match serde_json::from_slice::<Analyse>(&frame.body) {
            Ok(Analyse { name, code }) => {
                let analysis = transpile::analyse(&code, &name)
                    .unwrap_or_else(|report| Analysis { error: Some(*report), ..Analysis::default() });
                session.channel().send_json(Kind::Analysis, &analysis);
                session.channel().flush();
            }
            Err(err) => unreadable(err),
        },
        kind => last_words::fail(&format!("expected a program, got {kind:?}")),
    }
    // The host kills when it has time: giving back memory now would keep the processor from
    // carrying the answer on.
    loop {
        session.channel().receive();
    }
}
