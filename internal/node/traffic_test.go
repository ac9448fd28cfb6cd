package node

import (
	"fmt"
	"math"
	"testing"

	"github.com/cleavekv/cleave/heat"
)

// Operations are kept from the first request on, in their order, each with the same chance whatever it costs; what a slow
// reader has missed is counted; and nothing is kept when the readers have gone.
func TestTraffic_Readers_SeeTheSampleInOrder(t *testing.T) {
	var log trafficLog
	offer := func(key string, weight float64) { log.offer(&heat.Access{Key: []byte(key), Command: "get"}, weight) }
	offer("early", TrafficEvery)
	p := log.read(0, 0)
	if p.Next == 0 || len(p.Ops) > 0 {
		t.Fatalf("the first request got %+v", p)
	}
	buffer := []byte("k1")
	log.offer(&heat.Access{Key: buffer, Write: true, BytesIn: 3, BytesOut: 4, Command: "set"}, TrafficEvery)
	buffer[1] = '9' // it is the caller's
	log.offer(&heat.Access{Key: []byte("refused"), Conflict: true}, TrafficEvery)
	log.offer(&heat.Access{Key: make([]byte, maxTrafficKey+1)}, TrafficEvery)
	offer("k2", TrafficEvery)
	p = log.read(p.Next, 0)
	if len(p.Ops) != 2 || string(p.Ops[0].Key) != "k1" || !p.Ops[0].Write || p.Ops[0].Bytes != 7 || string(p.Ops[1].Key) != "k2" || p.Lost != 0 || p.TooLong != 1 {
		t.Fatalf("the next got %+v", p)
	}
	const offered = 40_000
	for range offered {
		offer("dear", TrafficEvery/16) // its kind is sampled sixteen times as often
	}
	p = log.read(p.Next, 0)
	if n, want := float64(len(p.Ops)), offered/16.0; math.Abs(n-want) > 6*math.Sqrt(want) {
		t.Errorf("%v of %d dear operations were shown, want about %v", n, offered, want)
	}
	for i := range maxTraffic + 5 {
		offer(fmt.Sprint(i), TrafficEvery)
	}
	if p = log.read(p.Next, 0); p.Lost != 5 || len(p.Ops) != maxTraffic || string(p.Ops[0].Key) != "5" {
		t.Errorf("%d were lost and %d shown, the first %s", p.Lost, len(p.Ops), p.Ops[0].Key)
	}
	if log.expire(trafficLease); log.ops == nil {
		t.Error("a reader's time has ended too early")
	}
	if log.expire(trafficLease + 1); log.ops != nil || log.reading.Load() {
		t.Error("operations are kept for nobody")
	}
	if again := log.read(p.Next, 0); len(again.Ops) > 0 || again.Next <= p.Next {
		t.Errorf("after a pause there is %+v, before it %d", again, p.Next)
	}
}
