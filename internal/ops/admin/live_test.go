package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
	"github.com/cleavekv/cleave/internal/testkit/eventually"
)

// liveTarget is the path of a stream.
func liveTarget(paths ...string) string {
	return api.PathStream + "?" + url.Values{api.QueryWatch: paths}.Encode()
}

// liveClient reads a stream.
type liveClient struct {
	t      testing.TB
	lines  *bufio.Reader
	cancel context.CancelFunc
}

// openStream opens a stream, which is closed with the test. It fails if there is no stream.
func (l *testServer) openStream(target string, header ...string) *liveClient {
	l.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	l.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.addr+target, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := new(http.Transport).RoundTrip(r)
	if err != nil {
		l.t.Fatal(err)
	}
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") || resp.Header.Get("Cache-Control") != "no-store" {
		body, _ := io.ReadAll(resp.Body)
		l.t.Fatalf("%s: %d, %v: %s", target, resp.StatusCode, resp.Header, body)
	}
	return &liveClient{l.t, bufio.NewReader(resp.Body), cancel}
}

// readEvent returns the next event and its data, "" at the end of the stream.
func (c *liveClient) readEvent() (event string, data string) {
	c.t.Helper()
	for {
		line, err := c.lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return "", ""
		}
		if err != nil {
			c.t.Fatal(err)
		}
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); {
		case name == "event":
			event = value
		case name == "data":
			data = value
		case line == "\n" && event != "":
			return event, data
		}
	}
}

// readAnswer returns the next answer.
func (c *liveClient) readAnswer() (a api.LiveAnswer) {
	c.t.Helper()
	event, data := c.readEvent()
	if err := json.Unmarshal([]byte(data), &a); err != nil || event != "data" {
		c.t.Fatalf("event %q with %q: %v", event, data, err)
	}
	return a
}

// What has changed is sent, and nothing else. What cannot be answered comes with its error.
func TestLive_SendsWhatChanges(t *testing.T) {
	l := startSmallServer(t)
	c := l.openStream(liveTarget(api.PathConfig, api.PathCaps, api.PathShards+"/999", api.PathConfig, api.PathOpenAPI))
	first := map[string]api.LiveAnswer{}
	for range 4 {
		a := c.readAnswer()
		first[a.Path] = a
	}
	_, text, _ := l.sendRequest("GET", api.PathConfig, "")
	if a := first[api.PathConfig]; a.Status != 200 || string(a.Body) != strings.TrimSpace(text) {
		t.Errorf("the first answer is %d %s, that of a GET is %s", a.Status, a.Body, text)
	}
	if a := first[api.PathShards+"/999"]; a.Status != 404 || !strings.Contains(string(a.Body), api.CodeNotFound) {
		t.Errorf("a shard that is missing is %d %s", a.Status, a.Body)
	}
	if a := first[api.PathOpenAPI]; a.Status != 200 || len(a.Body) < 1000 {
		t.Errorf("the document is %d %s", a.Status, a.Body)
	}
	// Several evaluations pass in which nothing changes.
	seen := l.admin.live.evaluations.Load()
	eventually.Holds(t, "the paths are evaluated again", func() bool { return l.admin.live.evaluations.Load() >= seen+8 })
	l.must(l.client.Post(ctx, api.PathSetCap, api.SetCap{Prefix: api.KeyOrNil([]byte("a")), WritesPerSecond: 5, Seconds: 600}, false))
	if a := c.readAnswer(); a.Path != api.PathCaps || !strings.Contains(string(a.Body), `"prefix":"a"`) {
		t.Errorf("after a cap was set comes %s %s", a.Path, a.Body)
	}
}

// must fails the test if an action has failed.
func (l *testServer) must(_ api.Action, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func TestLive_RefusesWhatItCannotStream(t *testing.T) {
	l := startSmallServer(t)
	many := make([]string, maxLivePaths+1)
	for i := range many {
		many[i] = fmt.Sprint(api.PathShards, "/", i+1)
	}
	for what, target := range map[string]string{
		"nothing": api.PathStream, "too many": liveTarget(many...), "itself": liveTarget(api.PathStream + "?watch=/api/v1/status"), "operations of others": liveTarget(api.PathTraffic),
		"figures": liveTarget(api.PathMetrics), "an action": liveTarget(api.PathSplit), "another server": liveTarget("http://evil.example" + api.PathStatus), "a host": liveTarget("//evil.example" + api.PathStatus),
		"dots": liveTarget("/api/v1/keyspaces/../status"), "no path": liveTarget("status"), "the page": liveTarget("/"), "a path that is none": liveTarget(api.PathStatus, "/api/v1/nothing"),
		"too often": liveTarget(api.PathStatus) + "&every=0", "too rarely": liveTarget(api.PathStatus) + "&every=61", "another parameter": liveTarget(api.PathStatus) + "&limit=3",
	} {
		status, body, _ := l.sendRequest("GET", target, "")
		checkRefusal(t, what, status, body, api.CodeInvalid, http.StatusBadRequest)
	}
	if status, body, _ := l.sendRequest("HEAD", liveTarget(api.PathStatus), ""); status != 200 || body != "" {
		t.Errorf("HEAD: %d, %s", status, body)
	}
	if n := l.admin.live.countStreams(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

// A body that is announced and never sent would hold the connection for ever: a stream has no deadline for reads.
func TestLive_RequestWithABody_IsRefused(t *testing.T) {
	l := startSmallServer(t)
	for _, method := range []string{"GET", "HEAD"} {
		conn, err := net.Dial("tcp", l.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n", method, liveTarget(api.PathStatus))
		lines := bufio.NewReader(conn)
		first, err := lines.ReadString('\n')
		if err != nil || !strings.Contains(first, " 400 ") {
			t.Errorf("%s: %q, %v", method, first, err)
		}
	}
}

// Answers have a bound in memory: what is beyond it is an error in the stream.
func TestLive_AnswersBeyondTheirMemory_AreRefused(t *testing.T) {
	hub := &liveHub{}
	topic := &liveTopic{hub: hub, key: topicKey{target: api.PathMap}}
	topic.setEvent(make([]byte, maxLiveBytes))
	if len(topic.event) != maxLiveBytes || hub.bytes.Load() != maxLiveBytes {
		t.Fatalf("%d bytes are kept of %d", hub.bytes.Load(), len(topic.event))
	}
	more := &liveTopic{hub: hub, key: topicKey{target: api.PathShards}}
	topic.setEvent(make([]byte, maxLiveBytes-2000))
	more.setEvent(make([]byte, 4000))
	if !strings.Contains(string(more.event), api.CodeTooLarge) || hub.bytes.Load() > maxLiveBytes {
		t.Errorf("%d bytes are kept, and the event is %.100q", hub.bytes.Load(), more.event)
	}
	more.forget()
	topic.forget()
	if n := hub.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// A stream shows what its client may read, and shares answers with clients of the same right alone.
func TestLive_HasTheAuthorityOfItsClient(t *testing.T) {
	l := startSmallServer(t, func(o *Options) {
		o.Listener.Close()
		wide, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		o.Listener, o.ReadToken = wide, testReadToken
	})
	_, port, _ := net.SplitHostPort(l.addr)
	l.addr = "127.0.0.1:" + port
	for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}} {
		status, body, _ := l.sendRequest("GET", liveTarget(api.PathStatus), "", header...)
		checkRefusal(t, "a stream without a right", status, body, api.CodeUnauthorized, http.StatusUnauthorized)
	}
	for _, token := range []string{testToken, testReadToken} {
		if a := l.openStream(liveTarget(api.PathConfig), "Authorization", "Bearer "+token).readAnswer(); a.Status != 200 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	l.admin.live.mu.Lock()
	if len(l.admin.live.topics) != 2 {
		t.Errorf("two tokens share their answers: there are %d", len(l.admin.live.topics))
	}
	l.admin.live.mu.Unlock()
	for _, header := range []string{"", "Bearer wrong", "Basic " + testToken} {
		if status, body := l.admin.live.evaluate(ctx, api.PathStatus, header); status != http.StatusUnauthorized || !strings.Contains(string(body), api.CodeUnauthorized) {
			t.Errorf("%q reads %d %s", header, status, body)
		}
	}
}

// There is room for so many streams, and for another one when a client has left. Nothing is left of
// those that have.
func TestLive_StreamsAreBounded_AndLeaveNothing(t *testing.T) {
	l := startSmallServer(t)
	clients := make([]*liveClient, maxLiveReaders)
	for i := range clients {
		clients[i] = l.openStream(liveTarget(api.PathConfig))
		clients[i].readAnswer()
	}
	refused := func(header ...string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://"+l.addr+liveTarget(api.PathConfig), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		checkRefusal(t, "one more", resp.StatusCode, string(body), api.CodeUnavailable, http.StatusServiceUnavailable)
	}
	refused()
	for len(clients) < maxLiveStreams { // operators find room
		c := l.openStream(liveTarget(api.PathConfig), "Authorization", "Bearer "+testToken)
		c.readAnswer()
		clients = append(clients, c)
	}
	refused("Authorization", "Bearer "+testToken)
	eventually.Holds(t, "the figures count streams and events", func() bool {
		_, figures, _ := l.sendRequest("GET", api.PathMetrics, "")
		return strings.Contains(figures, fmt.Sprintf("cleave_http_live_streams %d\n", maxLiveStreams)) && strings.Contains(figures, fmt.Sprintf("cleave_http_live_events_total %d\n", maxLiveStreams)) &&
			strings.Contains(figures, "cleave_http_live_evaluations_total ")
	})
	clients[0].cancel()
	eventually.Holds(t, "a stream ends with its client", func() bool { return l.admin.live.countStreams() < maxLiveStreams })
	clients[0] = l.openStream(liveTarget(api.PathConfig), "Authorization", "Bearer "+testToken)
	clients[0].readAnswer()
	for _, c := range clients {
		c.cancel()
	}
	eventually.Holds(t, "all streams end", func() bool {
		l.admin.live.mu.Lock()
		defer l.admin.live.mu.Unlock()
		return l.admin.live.streams == 0 && len(l.admin.live.topics) == 0 && l.admin.live.bytes.Load() == 0
	})
	eventually.Holds(t, "their goroutines end", func() bool {
		stacks := make([]byte, 4<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "serveLive")
	})
}

// narrowListener gives connections small buffers, so that a client that does not read is noticed soon.
type narrowListener struct{ net.Listener }

func (l narrowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// A client that does not read loses its stream, and holds up no other one.
func TestLive_SlowReader_IsClosed(t *testing.T) {
	l := startSmallServer(t, func(o *Options) { o.Listener, o.liveWriteTimeout = narrowListener{o.Listener}, 50*time.Millisecond })
	paths := make([]string, maxLivePaths) // 100 KB each
	for i := range paths {
		paths[i] = fmt.Sprint(api.PathOpenAPI, "?", i)
	}
	slow, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if err := slow.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(slow, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", liveTarget(paths...))
	eventually.Holds(t, "the stream begins", func() bool { return l.admin.live.evaluations.Load() > 0 })
	quick := l.openStream(liveTarget(api.PathOpenAPI + "?0"))
	quick.readAnswer()
	eventually.Holds(t, "the slow stream ends", func() bool { return l.admin.live.countStreams() == 1 })
}

// A stream rests between two events, and is not closed for that when many clients come.
func TestLive_BesideManyConnections_GoesOn(t *testing.T) {
	l := startSmallServer(t, func(o *Options) { o.headerTimeout = 10 * time.Minute })
	c := l.openStream(liveTarget(api.PathCaps))
	c.readAnswer()
	dialMany(t, l.addr, maxConns+100, "")
	if got := requestOnNewConn(t, l.addr, api.PathLive); got != http.StatusOK {
		t.Fatal(got)
	}
	l.must(l.client.Post(ctx, api.PathSetCap, api.SetCap{Prefix: api.KeyOrNil([]byte("a")), WritesPerSecond: 5, Seconds: 600}, false))
	if a := c.readAnswer(); !strings.Contains(string(a.Body), `"prefix":"a"`) {
		t.Errorf("%s", a.Body)
	}
}

// Streams go on while the server drains, and end with it: the client learns that nothing has broken.
func TestLive_EndsWithTheServer(t *testing.T) {
	l := startSmallServer(t)
	c := l.openStream(liveTarget(api.PathStatus))
	c.readAnswer()
	l.admin.Drain()
	later := l.openStream(liveTarget(api.PathStatus))
	later.readAnswer()
	if err := l.admin.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*liveClient{c, later} {
		event, data := c.readEvent()
		for event == "data" {
			event, data = c.readEvent()
		}
		if event != "end" || data != "{}" {
			t.Errorf("the last event is %q with %q", event, data)
		}
		if event, _ := c.readEvent(); event != "" {
			t.Errorf("after the end comes %q", event)
		}
	}
}

// newTestHub makes a hub whose answers are those of a function.
func newTestHub(evaluate func(target string) string) *liveHub {
	h := &liveHub{began: time.Now(), topics: map[topicKey]*liveTopic{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.evaluate = func(_ context.Context, target, _ string) (int, []byte) { return 200, []byte(evaluate(target)) }
	return h
}

// However many streams watch a path, and however they are begun, it is evaluated once a second.
func TestLive_EvaluatesOnceASecondForAllStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evaluated := 0
		h := newTestHub(func(string) string { evaluated++; return fmt.Sprint(evaluated) })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		events := make([]int, 8)
		for i := range events {
			time.Sleep(30 * time.Millisecond)
			s, err := h.open([]string{"/a"}, readAccess, "")
			if err != nil {
				t.Fatal(err)
			}
			every := livePeriod
			if i == 7 {
				every = 4 * livePeriod
			}
			wg.Go(func() {
				defer s.close()
				s.run(ctx, every, func([]byte) error { events[i]++; return nil })
			})
		}
		time.Sleep(h.began.Add(8*livePeriod + livePeriod/2).Sub(time.Now()))
		cancel()
		wg.Wait()
		if evaluated != 9 || events[0] != 9 || events[6] != 9 || events[7] != 3 {
			t.Errorf("%d evaluations in nine seconds, events %v", evaluated, events)
		}
	})
}

// A stream that has nothing to send shows that it lives.
func TestLive_Heartbeat_IsSentWhenNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHub(func(string) string { return "1" })
		s, err := h.open([]string{"/a"}, readAccess, "")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 61*time.Second)
		defer cancel()
		var sent []string
		s.run(ctx, maxLiveEvery*livePeriod, func(event []byte) error { sent = append(sent, string(event)); return nil })
		if len(sent) != 13 || !strings.HasPrefix(sent[0], "event: data\ndata: {") || sent[12] != ": ping\n\n" {
			t.Errorf("%d texts were sent: %q", len(sent), sent)
		}
	})
}

// A stream does not wait for a tick before its first answer.
func TestLive_StreamThatBegins_GetsAnAnswerAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHub(func(string) string { return time.Now().Format(time.RFC3339Nano) })
		for range 5 {
			s, err := h.open([]string{"/a"}, readAccess, "")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			s.run(t.Context(), time.Minute, func([]byte) error { return errors.New("enough") })
			if now := time.Now(); now != began {
				t.Errorf("the first answer came after %v", now.Sub(began))
			}
			s.close()
			time.Sleep(700 * time.Millisecond)
		}
	})
}
