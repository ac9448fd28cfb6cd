package redishook_test

import (
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/cleavekv/cleave/hotkey"
	"github.com/cleavekv/cleave/hotkey/redishook"
)

// Every minute the keys that clients wait for are logged.
func Example() {
	detector, err := hotkey.New(hotkey.Options{OnWindow: func(r hotkey.Report) {
		for _, hot := range r.Hot {
			log.Printf("hot key %q: %v, %.0f times the median", hot.Key, hot.Latency, hot.Ratio)
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	hook, err := redishook.New(detector, redishook.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	client.AddHook(hook)
	fmt.Println("pipelines left out:", hook.SkippedPipelines())
	// Output:
	// pipelines left out: 0
}
