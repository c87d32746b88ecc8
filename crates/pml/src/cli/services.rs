//! What a command works with: servers, broker, traces and a pool of workers, started before it and stopped after it.

use std::{future::Future, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::signals::cancel_on_signal;
use crate::{
    broker::OWN,
    config::Config,
    error::Error,
    execution::{Budget, Nested},
    sandbox::{self, Mode, Options, Pool, WorkerLimits},
    serve::{Options as ServiceOptions, Services, Traces},
    workflow::OwnTools,
};

/// On whose behalf the command line makes calls, in records.
pub(super) const CLI: &str = "cli";

/// Runs `work` with a pool and the servers, and leaves no process behind.
pub(super) async fn with_services<F: Future>(
    config: &Config,
    mode: Mode,
    work: impl FnOnce(Pool, Arc<Services>, CancellationToken) -> F,
) -> Result<F::Output, Error> {
    let traces = Traces::start(&config.traces, config.data_dir.as_deref(), &config.network)?;
    let work = |services| with_pool(config, mode, |pool, interrupt| work(pool, services, interrupt));
    with_started(config, traces, work).await
}

/// Lets programs and workflows use what pml offers itself.
pub(super) fn provide_own(services: &Services, pool: &Pool) {
    let nested = Nested::new(pool.clone(), services.recorder.clone());
    let tools = OwnTools::new(nested, services.recorder.clone(), Arc::default());
    services.broker.provide(OWN, Arc::new(tools));
}

/// Runs `work` with the servers and the names of capabilities, which it cannot run.
pub(super) async fn with_servers<F: Future>(
    config: &Config,
    work: impl FnOnce(Arc<Services>, CancellationToken) -> F,
) -> Result<F::Output, Error> {
    with_started(config, Traces::reading(&config.traces, config.data_dir.as_deref()), |services| {
        let interrupt = CancellationToken::new();
        let listening = cancel_on_signal(interrupt.clone());
        async move {
            // Whoever hears from this process may end it at once.
            let _ = listening.await;
            if let Some(capabilities) = services.capabilities() {
                capabilities.read().await;
            }
            work(services, interrupt).await
        }
    })
    .await
}

async fn with_started<F: Future>(
    config: &Config,
    traces: Traces,
    work: impl FnOnce(Arc<Services>) -> F,
) -> Result<F::Output, Error> {
    let services = Arc::new(Services::start(service_options(config, traces))?);
    let output = work(Arc::clone(&services)).await;
    if let Some(services) = Arc::into_inner(services) {
        services.stop().await;
    }
    Ok(output)
}

/// Runs `work` with a pool, and leaves no process behind.
///
/// The token given to `work` is cancelled by Ctrl-C or SIGTERM; a second signal ends pml on the
/// spot, whatever it is doing.
pub(super) async fn with_pool<F: Future>(
    config: &Config,
    mode: Mode,
    work: impl FnOnce(Pool, CancellationToken) -> F,
) -> F::Output {
    let interrupt = CancellationToken::new();
    let listening = cancel_on_signal(interrupt.clone());
    with_pool_alone(config, mode, |pool| async {
        // Whoever hears from this process may end it at once.
        let _ = listening.await;
        work(pool, interrupt).await
    })
    .await
}

/// The same for callers that already listen for signals.
pub(super) async fn with_pool_alone<F: Future>(config: &Config, mode: Mode, work: impl FnOnce(Pool) -> F) -> F::Output {
    let shutdown = CancellationToken::new();
    let (pool, keeper) = Pool::start(pool_options(config, mode), shutdown.clone());
    let keeper = tokio::spawn(keeper);
    let output = work(pool).await;
    shutdown.cancel();
    if let Err(err) = keeper.await {
        tracing::error!(error = %err, "the sandbox pool did not end as it should");
    }
    output
}

fn service_options(config: &Config, traces: Traces) -> ServiceOptions {
    ServiceOptions {
        program: sandbox::this_program(),
        servers: config.servers.clone(),
        policy: config.policy.clone(),
        data_dir: config.data_dir.clone(),
        model_dir: config.search.model_dir.clone(),
        encoder: config.search.encoder,
        results_bytes: config.gateway.results_bytes,
        retention: config.audit,
        max_starting: config.max_starting,
        network: config.network.clone(),
        traces,
        learns: config.learns,
        speculates: config.speculates,
    }
}

fn pool_options(config: &Config, mode: Mode) -> Options {
    let Budget { max_timeout, memory_bytes, result_bytes, .. } = config.limits;
    Options {
        program: sandbox::this_program(),
        mode,
        warm_workers: config.sandbox.warm_workers,
        allow_weak: config.sandbox.allow_weak,
        time_zone: config.sandbox.time_zone.clone(),
        limits: WorkerLimits {
            memory_bytes: memory_bytes as u64,
            // Whole seconds, and some for the start: the engine and the host stop it long before.
            cpu_seconds: max_timeout.as_secs() + 2,
        },
        // A result or arguments at their limit, and a little around them.
        max_frame_bytes: u32::try_from(result_bytes + 64 * 1024).unwrap_or(u32::MAX),
    }
}
