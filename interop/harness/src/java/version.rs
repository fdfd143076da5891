//! The lines of Dubbo, and what each of them can do by itself.

/// Which Dubbo a Java peer runs; interop/README.md has the exact versions.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum DubboVersion {
    /// The last release of 2.6, still `com.alibaba.dubbo`: hessian2, and fastjson as serialization
    /// 6, one text a line. It has no registry in etcd.
    V2_6,
    /// The last release of 2.7: hessian2 and fastjson, as 2.6.
    V2_7,
    /// The last release of 3.2: hessian2 and fastjson2, and fastjson as serialization 6 by an
    /// extension, each text behind its length.
    V3_2,
    /// The current 3.3: the serializations of 3.2.
    V3_3,
}

impl DubboVersion {
    /// All versions, for tests that hold for each.
    pub const ALL: [Self; 4] = [Self::V2_6, Self::V2_7, Self::V3_2, Self::V3_3];

    /// Its number, as in `2.7`.
    #[must_use]
    pub fn number(self) -> &'static str {
        match self {
            Self::V2_6 => "2.6",
            Self::V2_7 => "2.7",
            Self::V3_2 => "3.2",
            Self::V3_3 => "3.3",
        }
    }

    /// The folder of its Maven module.
    pub(super) fn module(self) -> &'static str {
        match self {
            Self::V2_6 => "provider-2.6",
            Self::V2_7 => "provider-2.7",
            Self::V3_2 => "provider-3.2",
            Self::V3_3 => "provider-3.3",
        }
    }

    /// Whether its peers can register, and look for providers, in etcd.
    #[must_use]
    pub fn has_etcd(self) -> bool {
        self != Self::V2_6
    }

    /// Dubbo's names of the serializations that its peers have.
    #[must_use]
    pub fn serializations(self) -> &'static [&'static str] {
        match self {
            Self::V2_6 | Self::V2_7 => &["hessian2", "fastjson"],
            Self::V3_2 | Self::V3_3 => &["hessian2", "fastjson2", "fastjson"],
        }
    }

    /// Whether both write the same bytes under this name: the fastjson of Dubbo 3 is framed in
    /// another way than that of Dubbo 2.
    #[must_use]
    pub fn shares(self, other: Self, serialization: &str) -> bool {
        let have_it =
            [self, other].iter().all(|version| version.serializations().contains(&serialization));
        have_it && (serialization != "fastjson" || (self < Self::V3_2) == (other < Self::V3_2))
    }

    /// The calls of interop/peer's `Calls` that go wrong between a consumer of this version and a
    /// `provider` with nobody between them; docs/compatibility.md says why.
    #[must_use]
    pub fn wrong_calls(self, provider: Self, serialization: &str) -> Vec<&'static str> {
        let mut calls = Vec::new();
        if provider == Self::V2_6 && self != Self::V2_6 {
            // 2.6 knows neither attachments that are no strings, nor methods that return a future,
            // nor this way of generic calls.
            calls.extend([
                "object_attachment",
                "reply_object_attachment",
                "later",
                "generic_gson_person",
            ]);
        }
        if (self == Self::V2_6) != (provider == Self::V2_6) {
            // The class of the argument has another package.
            calls.push("generic_bean_person");
        }
        match serialization {
            "fastjson" => calls.extend(self.wrong_by_fastjson()),
            // The message of an exception gets lost.
            "fastjson2" => calls.extend(["fail", "fail_out_of_stock"]),
            _ => {}
        }
        calls.sort_unstable();
        calls.dedup();
        calls
    }

    /// What fastjson itself cannot do: it does not say the classes of objects (2.6 and 2.7), or
    /// writes null numbers as 0 (3), and no consumer can read all exceptions.
    fn wrong_by_fastjson(self) -> &'static [&'static str] {
        match self {
            Self::V2_6 | Self::V2_7 => &[
                "any_list",
                "any_long",
                "any_map",
                "any_person",
                "async_fail",
                "fail",
                "fail_out_of_stock",
                "fail_unchecked",
                "generic_bean_person",
                "generic_fail",
                "subclass",
            ],
            Self::V3_2 | Self::V3_3 => &[
                "any_map",
                "any_person",
                "echo_person",
                "fail",
                "fail_out_of_stock",
                "generic_bean_person",
                "make_person",
                "people",
                "person",
                "person_sparse",
                "prices",
                "twins",
            ],
        }
    }
}
