//! What questions, answers and pushes are about.

/// A service in a namespace.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ServiceName {
    /// Such as `DEFAULT_GROUP`.
    pub group: String,
    /// Without its group.
    pub name: String,
}

/// A document in a namespace.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConfigKey {
    /// Such as `mapping`.
    pub group: String,
    /// Its name in the group.
    pub data_id: String,
}
