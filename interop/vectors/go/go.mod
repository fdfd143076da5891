module vectors

go 1.20

require (
	github.com/apache/dubbo-go-hessian2 v1.12.5
	github.com/dubbogo/gost v1.14.0
)
