//! TLS for connections to PostgreSQL, by rustls, as pml uses it for everything else.

use std::{
    convert::Infallible,
    fs, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};
use tokio_rustls::TlsConnector;

use super::address::{Address, Roots, Verify};

/// Makes connections encrypted.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Reads the certificates of the authorities that are trusted, if any are asked for.
    pub(super) fn of(address: &Address) -> io::Result<Tls> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let of_any_host = |authority| OfAnyHost { provider: Arc::clone(&provider), authority };
        let verifier: Arc<dyn ServerCertVerifier> = match &address.verify {
            Verify::Nothing => Arc::new(of_any_host(None)),
            Verify::Authority(roots) => Arc::new(of_any_host(Some(verifier(roots, &provider)?))),
            Verify::Host(roots) => verifier(roots, &provider)?,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Tls(Arc::new(config)))
    }
}

fn verifier(roots: &Roots, provider: &Arc<CryptoProvider>) -> io::Result<Arc<WebPkiServerVerifier>> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
        }
        Roots::File(path) => {
            let named = |err: &dyn std::fmt::Display| {
                io::Error::other(format!("the certificates in `{}` cannot be read: {err}", path.display()))
            };
            let text = fs::read(path).map_err(|err| named(&err))?;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                store.add(certificate.map_err(|err| named(&err))?).map_err(|err| named(&err))?;
            }
        }
    }
    if store.is_empty() {
        return Err(io::Error::other("there is no certificate of an authority; name a file with `sslrootcert`"));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build().map_err(io::Error::other)
}

/// Takes a certificate for any host.
#[derive(Debug)]
struct OfAnyHost {
    provider: Arc<CryptoProvider>,
    /// Says which authorities are trusted, as `sslmode=verify-ca` wants it; without it, as with `sslmode=require`, anybody is.
    authority: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for OfAnyHost {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        // The name is looked at last.
        match authority.verify_server_cert(end, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Makes one connection encrypted.
pub(super) struct Handshake(Tls, String);

/// An encrypted connection.
pub(super) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = Infallible;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Self::Error> {
        Ok(Handshake(self.clone(), host.to_owned()))
    }
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Encrypted>>;

    fn connect(self, socket: Socket) -> Self::Future {
        let Handshake(Tls(config), host) = self;
        Box::pin(async move {
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            Ok(Encrypted(TlsConnector::from(config).connect(name, socket).await?))
        })
    }
}

impl TlsStream for Encrypted {
    /// The password is proved by SCRAM, bound to no certificate: `verify-full` says whom it is proved to.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
