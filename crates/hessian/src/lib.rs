//! hessian
