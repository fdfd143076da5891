//! Descriptors of Java values, as generic calls with `generic=bean` carry them: read into JSON,
//! and written from it.
//!
//! A descriptor is an object with the name of a class, a number for what the class is, and a map:
//! of the fields of a bean, of the elements of a collection by their places, of the entries of a
//! map, or with the value itself.
//!
//! Source: apache/dubbo, `JavaBeanDescriptor` and `JavaBeanSerializeUtil`. How deep descriptors
//! are nested, and how much repeated ones grow to, was bounded when they became JSON; none
//! contains itself then.

mod read;
mod write;

pub use self::read::{class_of, plain};
pub use self::write::{BeanError, describe};

/// The class of descriptors since Dubbo 2.7.
pub const CLASS: &str = "org.apache.dubbo.common.beanutil.JavaBeanDescriptor";
/// The same up to Dubbo 2.6.
pub const OLD_CLASS: &str = "com.alibaba.dubbo.common.beanutil.JavaBeanDescriptor";

/// What a class is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum BeanKind {
    Class = 1,
    Enum = 2,
    Collection = 3,
    Map = 4,
    Array = 5,
    /// A number, a text, a date: anything that is its own descriptor's value.
    Primitive = 6,
    Bean = 7,
}

impl BeanKind {
    const ALL: [Self; 7] = [
        Self::Class,
        Self::Enum,
        Self::Collection,
        Self::Map,
        Self::Array,
        Self::Primitive,
        Self::Bean,
    ];
}

#[cfg(test)]
mod tests;
