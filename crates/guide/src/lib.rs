//! The services of the programs in `src/bin`, which are those of the guides.
#![forbid(unsafe_code)]
#![expect(missing_docs, unused_qualifications, reason = "it is generated")]

pub mod weather {
    tonic::include_proto!("weather");
}

pub mod shop {
    tonic::include_proto!("shop");
}
