//! Bytes that are text nearly always: arguments, paths, output.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are text nearly always. In JSON they are a string, or `{"base64": "…"}` where they are no
/// UTF-8 (RFC 4648, with padding); a reader takes either form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Text(pub Vec<u8>);

/// As JSON has it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form<S> {
    Plain(S),
    Encoded(Encoded),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    base64: String,
}

impl Text {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As an argument, the value of a variable or a path. None of these can hold a zero byte.
    pub fn to_os(&self) -> Option<OsString> {
        let has_zero = self.0.contains(&0);
        (!has_zero).then(|| OsString::from_vec(self.0.clone()))
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let form = match std::str::from_utf8(&self.0) {
            Ok(text) => Form::Plain(text),
            Err(_) => Form::Encoded(Encoded {
                base64: STANDARD.encode(&self.0),
            }),
        };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Form::<String>::deserialize(deserializer) {
            Ok(Form::Plain(text)) => Ok(Self(text.into_bytes())),
            Ok(Form::Encoded(Encoded { base64 })) => {
                STANDARD.decode(base64).map(Self).map_err(D::Error::custom)
            }
            Err(_) => Err(D::Error::custom(
                "expected a string, or an object {\"base64\": string}",
            )),
        }
    }
}

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<&Path> for Text {
    fn from(path: &Path) -> Self {
        path.as_os_str().into()
    }
}

impl From<PathBuf> for Text {
    fn from(path: PathBuf) -> Self {
        Self(path.into_os_string().into_vec())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_as_a_string_where_they_are_one_and_come_back_exactly() {
        let texts: [(&[u8], &str); 3] = [
            (b"a \"b\"", r#""a \"b\"""#),
            (b"", r#""""#),
            (b"\xff\x00", r#"{"base64":"/wA="}"#),
        ];
        for (bytes, json) in texts {
            let text = Text(bytes.to_vec());
            assert_eq!(serde_json::to_string(&text).expect("JSON"), json);
            assert_eq!(serde_json::from_str::<Text>(json).expect("text"), text);
        }
        for wrong in [
            "1",
            "null",
            r#"["a"]"#,
            r#"{"base64": "?"}"#,
            r#"{"base64": "/wA"}"#,
            r#"{"base64": "", "x": 1}"#,
        ] {
            assert!(serde_json::from_str::<Text>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_zero_byte_is_in_no_argument() {
        assert_eq!(Text(b"a\0b".to_vec()).to_os(), None);
        assert_eq!(Text::from("a").to_os(), Some("a".into()));
    }
}
