//! The life of one worker: lock, say `Ready`, run one program or read several, leave.

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

/// Serves one run over the socket on stdin, in a process that [`harden::prepare`] has prepared.
pub(crate) fn serve(session: &Session<'_>, prepared: &HardeningReport, limits: WorkerLimits) -> ! {
    session.reseed();
    let hardening = harden::lock(prepared, limits);
    let ready = Ready { version: PROTOCOL_VERSION, hardening };
    session.channel().send_json(Kind::Ready, &ready);
    session.channel().flush();

    let frame = session.channel().receive();
    match frame.kind {
        Kind::Init => match serde_json::from_slice::<Init>(&frame.body) {
            Ok(init) => session.run(&init),
            Err(err) => unreadable(&err),
        },
        Kind::Analyse => analyse(session, &frame.body),
        kind => last_words::fail(&format!("expected a program, got {kind:?}")),
    }
    // The worker waits to be killed by the host: freeing its memory now would delay the
    // response on a busy processor.
    loop {
        let next = session.channel().receive();
        // Programs that are read and not run leave nothing behind, so one worker reads many.
        if frame.kind == Kind::Analyse && next.kind == Kind::Analyse {
            analyse(session, &next.body);
        }
    }
}

/// Reads a program and answers what it found.
fn analyse(session: &Session<'_>, body: &[u8]) {
    match serde_json::from_slice::<Analyse>(body) {
        Ok(Analyse { name, code }) => {
            let analysis = transpile::analyse(&code, &name)
                .unwrap_or_else(|report| Analysis { error: Some(*report), ..Analysis::default() });
            session.channel().send_json(Kind::Analysis, &analysis);
            session.channel().flush();
        }
        Err(err) => unreadable(&err),
    }
}

fn unreadable(err: &serde_json::Error) -> ! {
    last_words::fail(&format!("the program cannot be read: {err}"))
}
