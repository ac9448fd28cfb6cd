package admin

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// dialMany opens connections that stay open, and sends a text on each.
func dialMany(t *testing.T, addr string, n int, text string) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if text != "" {
			_, _ = fmt.Fprint(c, text)
		}
	}
}

// requestOnNewConn asks for a path on a connection of its own.
func requestOnNewConn(t *testing.T, addr, path string) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Errorf("%s: no answer: %v", path, err)
		return 0
	}
	return resp.StatusCode
}

// Whatever clients leave open, requests for the health of the server are answered.
func TestHealth_BesideManyConnections_Answers(t *testing.T) {
	for name, text := range map[string]string{
		"silent":         "",
		"half a header":  "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
		"kept alive":     "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"half a body":    "POST /api/v1/shards/split HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + testToken + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"half a refusal": "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			// No connection is closed for being slow: room is made for the newcomer, or kept for it.
			l := startSmallServer(t, func(o *Options) { o.headerTimeout = 10 * time.Minute })
			dialMany(t, l.addr, maxConns+100, text)
			for _, path := range []string{api.PathLive, api.PathReady, api.PathReady + "?verbose=true"} {
				if got := requestOnNewConn(t, l.addr, path); got != http.StatusOK {
					t.Errorf("%s: %d", path, got)
				}
			}
		})
	}
}
