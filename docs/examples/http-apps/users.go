// go run users.go
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

type User struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Born string `json:"born,omitempty"`
}

var (
	mutex sync.Mutex
	users = map[int64]User{1: {1, "Ann", "1990-05-01T00:00:00Z"}}
)

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("content-type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(value)
}

func main() {
	http.HandleFunc("/users/", func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		id, _ := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/users/"), 10, 64)
		if user, ok := users[id]; ok {
			answer(w, 200, user)
		} else {
			answer(w, 404, map[string]string{"message": fmt.Sprint("no user ", id)})
		}
	})
	http.HandleFunc("/users", func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		var user User
		if err := json.NewDecoder(r.Body).Decode(&user); err != nil || user.Name == "" {
			answer(w, 422, map[string]string{"message": "a user needs a name", "field": "name"})
			return
		}
		user.ID = int64(len(users) + 1)
		users[user.ID] = user
		answer(w, 201, user)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}
