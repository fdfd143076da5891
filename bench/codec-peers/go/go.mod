module dubmesh.org/bench/codec

go 1.26

require github.com/apache/dubbo-go-hessian2 v1.12.5

require (
	github.com/dubbogo/gost v1.13.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	go.uber.org/atomic v1.9.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
