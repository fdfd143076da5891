// Writes one value a file into the folder that is given, as dubbo-go does.
package main

import (
	"os"
	"path/filepath"
	"time"

	hessian "github.com/apache/dubbo-go-hessian2"
	"github.com/apache/dubbo-go-hessian2/java_exception"
	big "github.com/dubbogo/gost/math/big"
)

type Color hessian.JavaEnum

const (
	Red Color = iota
	Green
)

func (Color) JavaClassName() string { return "org.dubmesh.interop.Color" }
func (c Color) String() string      { return [...]string{"RED", "GREEN"}[c] }
func (Color) EnumValue(name string) hessian.JavaEnum {
	if name == "RED" {
		return hessian.JavaEnum(Red)
	}
	return hessian.JavaEnum(Green)
}

type Address struct {
	Street string
	City   string
	Zip    int32
}

func (Address) JavaClassName() string { return "org.dubmesh.interop.Address" }

type Person struct {
	Name    string
	Age     int32
	ID      *int64 `hessian:"id"`
	Active  bool
	Score   float64
	Balance *big.Decimal
	Born    time.Time
	Color   Color
	Address *Address
	Friends []*Person
	Counts  map[string]int32
}

func (Person) JavaClassName() string { return "org.dubmesh.interop.Person" }

func integer(text string) *big.Integer {
	value := new(big.Integer)
	if err := value.FromString(text); err != nil {
		panic(err)
	}
	return value
}

func decimal(text string) *big.Decimal {
	value := new(big.Decimal)
	if err := value.FromString(text); err != nil {
		panic(err)
	}
	return value
}

func main() {
	hessian.RegisterJavaEnum(Red)
	hessian.RegisterPOJO(&Address{})
	hessian.RegisterPOJO(&Person{})

	id := int64(1)<<53 + 1
	ann := &Person{
		Name: "Ann 😀", Age: 3, ID: &id, Active: true, Score: 99.8,
		Balance: decimal("12345678901234567890.99"), Born: time.UnixMilli(1709211959123),
		Color: Green, Address: &Address{"Main", "Köln", 50667}, Friends: []*Person{{Name: "f"}},
		Counts: map[string]int32{"x": 1},
	}
	values := map[string]interface{}{
		"big-integers": []*big.Integer{
			integer("123456789012345678901234567890"), integer("-4294967295"), integer("0"),
		},
		"person":           ann,
		"twins":            []*Person{ann, ann},
		"people-by-number": map[int32]*Address{7: {"Main", "Köln", 50667}},
		"times":            []time.Time{time.UnixMilli(0), time.UnixMilli(1709211959123), time.Unix(1709211960, 0)},
		"numbers": []interface{}{
			int8(-7), int16(300), int32(1), int64(1), id, float32(99.8), 0.1, 3.0, uint16(65), []byte{1}, nil,
		},
		"exception": java_exception.NewIllegalStateException("bad 😀"),
	}
	for name, value := range values {
		encoder := hessian.NewEncoder()
		if err := encoder.Encode(value); err != nil {
			panic(err)
		}
		path := filepath.Join(os.Args[1], name+".bin")
		if err := os.WriteFile(path, encoder.Buffer(), 0o644); err != nil {
			panic(err)
		}
	}
}
