package server

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// Every setting is of one class alone, and CONFIG GET has the value that is true.
func TestSettings_EachIsOfOneClass(t *testing.T) {
	classes := map[string]int{}
	count := func(values map[string]string) {
		for name := range values {
			classes[name]++
		}
	}
	count(honouredSettings)
	count(encodingSettings)
	count(immutableSettings(&Options{}))
	for _, g := range constantSettings {
		count(g.values)
	}
	for name := range firstSettings(&Options{}) {
		if classes[name] != 1 {
			t.Errorf("%s is of %d classes", name, classes[name])
		}
	}
}

func TestSettings_WithOneValueRefuseAnother(t *testing.T) {
	l := startServer(t, shapes[0], Options{Fsync: "always", Dir: "somewhere"})
	c := l.dial()
	for _, g := range constantSettings {
		for name, value := range g.values {
			if value == "" {
				value = "''"
			}
			c.runScript(fmt.Sprintf("CONFIG SET %s %s -> OK", name, value))
			other := map[string]string{"yes": "no", "no": "yes", "''": "3600", "noeviction": "allkeys-lru"}[value]
			if other == "" {
				other = "77"
			}
			c.runScript(fmt.Sprintf("CONFIG SET timeout 9 %s %s -> -ERR CONFIG SET failed (possibly related to argument '%s') - %s", name, other, name, g.reason))
		}
	}
	c.runScript(`
		CONFIG GET timeout -> [timeout 0]
		CONFIG SET maxmemory-policy NOEVICTION -> OK
		CONFIG SET maxmemory-policy allkeys-lru -> -ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - Cleave evicts nothing: noeviction is the only policy
		CONFIG SET appendfsync always dir somewhere -> OK
		CONFIG SET appendfsync no -> -ERR CONFIG SET failed (possibly related to argument 'appendfsync') - can't set immutable config: start the server with another --appendfsync
		CONFIG SET dir elsewhere -> -ERR CONFIG SET failed (possibly related to argument 'dir') - can't set immutable config: start the server with another --data
		CONFIG SET slowlog-max-len 100001 -> -ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument must be between 0 and 100000 inclusive
	`)
}

// A store on disk takes as much memory as it was given: maxmemory is not for it.
func TestSettings_MaxmemoryIsRefusedOnDisk(t *testing.T) {
	l := startServer(t, shapes[0], Options{})
	l.dial().runScript(`
		CONFIG SET maxmemory 0 -> OK
		CONFIG SET maxmemory 1gb -> -ERR CONFIG SET failed (possibly related to argument 'maxmemory') - maxmemory is for storage memory; *
		CONFIG GET maxmemory -> [maxmemory 0]
	`)
	if err := l.s.Configure(map[string]string{"maxmemory": "1024"}); err == nil || !strings.Contains(err.Error(), "cache-mib") {
		t.Errorf("an operator is told %v", err)
	}
	startServer(t, shapes[0], Options{Memory: true}).dial().runScript("CONFIG SET maxmemory 1gb -> OK")
}

// The settings of Redis' encodings are accepted, since its test suite sets them.
func TestSettings_OfEncodingsAreAccepted(t *testing.T) {
	c := startServer(t, shapes[0], Options{}).dial()
	for name := range maps.Keys(encodingSettings) {
		c.runScript(fmt.Sprintf("CONFIG SET %s 7 -> OK\nCONFIG GET %s -> [%s 7]", name, name, name))
	}
}

// Clients of Redis Cluster find a cluster of one node if they shall, and commands stay as they are.
func TestSettings_ClusterEnabled(t *testing.T) {
	for _, x := range []struct {
		on                     bool
		enabled, setting, mode string
	}{{false, "cluster_enabled:0\r\n", "no", "standalone"}, {true, "cluster_enabled:1\r\n", "yes", "cluster"}} {
		c := startServer(t, shapes[0], Options{Cluster: x.on}).dial()
		if info := c.ask("INFO"); !strings.Contains(info, x.enabled) || !strings.Contains(info, "redis_mode:"+x.mode+"\r\n") {
			t.Errorf("cluster %v: INFO says %s", x.on, info)
		}
		if hello := c.ask("HELLO 2"); !strings.Contains(hello, " mode "+x.mode+" ") {
			t.Errorf("cluster %v: HELLO says %s", x.on, hello)
		}
		c.runScript(fmt.Sprintf(`
			CONFIG GET cluster-enabled -> [cluster-enabled %s]
			CONFIG SET cluster-enabled %s -> OK
			MSET {a}x 1 {b}y 2 -> OK
			MGET {a}x {b}y -> [1 2]
			SELECT 0 -> OK
		`, x.setting, x.setting))
	}
}
