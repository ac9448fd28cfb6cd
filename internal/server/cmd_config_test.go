package server

import (
	"fmt"
	"strings"
	"testing"
)

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
