// Command codec measures dubbo-go-hessian2, with encoding/json, on the bytes that our program wrote.
//
// "check IN OUT" reads IN/SHAPE.hessian and writes what it understood as OUT/SHAPE.json and
// OUT/SHAPE.hessian. "time IN SECONDS WARM-UP" prints a line of JSON for each shape and step.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"time"

	hessian "github.com/apache/dubbo-go-hessian2"
)

const batch = 20 * time.Millisecond

// Order is a class of twelve fields.
type Order struct {
	ID       int64   `json:"id" hessian:"id"`
	Customer string  `json:"customer"`
	Street   string  `json:"street"`
	City     string  `json:"city"`
	Country  string  `json:"country"`
	Quantity int32   `json:"quantity"`
	Price    float64 `json:"price"`
	Paid     bool    `json:"paid"`
	Created  int64   `json:"created"`
	Comment  string  `json:"comment"`
	Status   string  `json:"status"`
	Weight   float64 `json:"weight"`
}

// JavaClassName is the name of the class in Java.
func (*Order) JavaClassName() string { return "org.dubmesh.bench.Order" }

var sink any

func main() {
	hessian.RegisterPOJO(&Order{})
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	for _, shape := range []string{"string-100", "pojo-12", "pojos-100", "map-50", "text-1m", "chinese-1m"} {
		bytes, err := os.ReadFile(filepath.Join(args[1], shape+".hessian"))
		if err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(args[1], shape+".json"))
		if err != nil {
			return err
		}
		if args[0] == "check" {
			err = check(shape, args[2], bytes, text)
		} else {
			err = measureAll(shape, args[2], args[3], bytes, text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", shape, err)
		}
	}
	return nil
}

func check(shape, to string, bytes, text []byte) error {
	value, err := decode(bytes)
	if err != nil {
		return err
	}
	back, err := toJSON(value)
	if err != nil {
		return err
	}
	again, err := fromJSON(shape, text)
	if err != nil {
		return err
	}
	encoded, err := encode(again)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(to, shape+".json"), back, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, shape+".hessian"), encoded, 0o644)
}

func measureAll(shape, secondsText, warmUpText string, bytes, text []byte) error {
	seconds, err := strconv.ParseFloat(secondsText, 64)
	if err != nil {
		return err
	}
	warmUp, err := strconv.ParseFloat(warmUpText, 64)
	if err != nil {
		return err
	}
	value, err := fromJSON(shape, text)
	if err != nil {
		return err
	}
	steps := []struct {
		name string
		run  func() (any, error)
	}{
		{"encode", func() (any, error) { return encode(value) }},
		{"decode", func() (any, error) { return decode(bytes) }},
		{"to-json", func() (any, error) {
			value, err := decode(bytes)
			if err != nil {
				return nil, err
			}
			return toJSON(value)
		}},
		{"from-json", func() (any, error) {
			value, err := fromJSON(shape, text)
			if err != nil {
				return nil, err
			}
			return encode(value)
		}},
	}
	for _, step := range steps {
		if _, err := batches(warmUp, step.run); err != nil {
			return err
		}
		found, err := batches(seconds, step.run)
		if err != nil {
			return err
		}
		sort.Float64s(found)
		fmt.Printf("{\"name\":\"%s/%s\",\"ns\":%.1f,\"best_ns\":%.1f}\n", shape, step.name, found[len(found)/2], found[0])
	}
	return nil
}

func encode(value any) ([]byte, error) {
	encoder := hessian.NewEncoder()
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return encoder.Buffer(), nil
}

func decode(bytes []byte) (any, error) {
	return hessian.NewDecoder(bytes).Decode()
}

// toJSON makes maps into what encoding/json takes.
func toJSON(value any) ([]byte, error) {
	if entries, ok := value.(map[any]any); ok {
		named := make(map[string]any, len(entries))
		for key, value := range entries {
			named[key.(string)] = value
		}
		value = named
	}
	return json.Marshal(value)
}

func fromJSON(shape string, text []byte) (any, error) {
	switch shape {
	case "pojo-12":
		order := new(Order)
		return order, json.Unmarshal(text, order)
	case "pojos-100":
		var orders []*Order
		err := json.Unmarshal(text, &orders)
		return orders, err
	case "map-50":
		var entries map[string]int32
		err := json.Unmarshal(text, &entries)
		return entries, err
	default:
		var value string
		err := json.Unmarshal(text, &value)
		return value, err
	}
}

// batches gives nanoseconds a run.
func batches(seconds float64, run func() (any, error)) ([]float64, error) {
	var found []float64
	runs := 1
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for len(found) == 0 || time.Now().Before(end) {
		start := time.Now()
		for range runs {
			value, err := run()
			if err != nil {
				return nil, err
			}
			sink = value
		}
		elapsed := time.Since(start)
		if elapsed < batch {
			runs *= 2
		} else {
			found = append(found, float64(elapsed.Nanoseconds())/float64(runs))
		}
	}
	return found, nil
}
