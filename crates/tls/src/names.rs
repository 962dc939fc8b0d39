//! Whom a certificate names.

use x509_parser::prelude::{FromDer, X509Certificate};

/// The common name of a certificate's subject (RFC 5280, section 4.1.2.6); `None` if there is not exactly one, or if it is no text.
pub(crate) fn common_name(certificate: &[u8]) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let (name, more) = (names.next()?, names.next());
    let name = name.as_str().ok()?;
    (more.is_none() && !name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn named(names: &[(DnType, &str)]) -> Option<String> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        common_name(certificate.der())
    }

    #[test]
    fn the_common_name_is_the_user() {
        let named_ann = [
            (DnType::OrganizationName, "bob"),
            (DnType::CommonName, "ann"),
        ];
        assert_eq!(named(&named_ann).as_deref(), Some("ann"));
        assert_eq!(named(&[(DnType::OrganizationName, "bob")]), None);
        assert_eq!(named(&[(DnType::CommonName, "")]), None);
        assert_eq!(common_name(b"\x30\x03abc"), None);
    }
}
