//! Generates what users of tonic and of volo would have generated: clients and servers of the
//! echo.

fn main() {
    println!("cargo:rerun-if-changed=idl/echo.thrift");
    let method = tonic_build::manual::Method::builder()
        .name("echo")
        .route_name("Echo")
        .input_type("crate::tonic_echo::Payload")
        .output_type("crate::tonic_echo::Payload")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let service =
        tonic_build::manual::Service::builder().name("Echo").package("bench").method(method);
    tonic_build::manual::Builder::new().compile(&[service.build()]);
    volo_build::Builder::thrift()
        .add_service("idl/echo.thrift")
        .filename("volo_echo.rs".into())
        .write()
        .expect("code for idl/echo.thrift");
}
