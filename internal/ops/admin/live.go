package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cleavekv/cleave/internal/ops/api"
)

// Bounds of live answers.
const (
	// livePeriod is how often a path is evaluated at most.
	livePeriod = time.Second
	// liveHeartbeat is how long a stream says nothing at most, so that clients and what is between
	// find out that the other end is gone.
	liveHeartbeat = 5 * time.Second
	// liveWriteTimeout is how long a client may take to receive what is sent at once.
	liveWriteTimeout = 10 * time.Second
	maxLiveStreams   = 32
	// maxLiveReaders is how many streams those have who may not change anything, so that they keep no operator out.
	maxLiveReaders = 24
	maxLivePaths   = 16
	// maxLiveBytes is how much memory answers take: a map of 10,000 shards has 4 MB.
	maxLiveBytes = 64 << 20
	maxLiveEvery = 60 // seconds
)

// liveRoute is a stream of what other GETs answer.
func (a *Admin) liveRoute() route {
	query := []param{
		{api.QueryWatch, paramRepeated, "a path below " + api.PathPrefix + " that answers JSON, with its query; at most " + strconv.Itoa(maxLivePaths) + " of them"},
		{api.QueryEvery, "integer", "how many seconds are between two evaluations: default 1, at most " + strconv.Itoa(maxLiveEvery)},
	}
	return route{
		method: http.MethodGet, path: api.PathStream, name: "stream", query: query,
		summary:  "Answers of other GETs, sent anew when they change, as server-sent events.",
		statuses: []int{http.StatusOK}, mediaType: "text/event-stream", endless: true,
		handle: func(w http.ResponseWriter, r *http.Request) {
			q, err := parseQuery(r, query)
			if err == nil {
				err = a.serveLive(w, r, q)
			}
			if err != nil {
				writeError(w, err)
			}
		},
	}
}

// serveLive answers with a stream until the client leaves or the server ends. An error means that the
// stream has not begun.
func (a *Admin) serveLive(w http.ResponseWriter, r *http.Request, q *query) error {
	every, err := q.getUint(api.QueryEvery, 1)
	if err != nil {
		return err
	}
	if every < 1 || every > maxLiveEvery {
		return newInvalidError("parameter every is "+strconv.FormatUint(every, 10), "give 1 to "+strconv.Itoa(maxLiveEvery)+" seconds")
	}
	paths, err := a.live.checkPaths(q.values[api.QueryWatch])
	if err != nil {
		return err
	}
	h := w.Header()
	if r.ContentLength != 0 { // it would be waited for without a bound
		h.Set("Connection", "close")
		return newInvalidError("the request has a body", "send none")
	}
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	if r.Method == http.MethodHead {
		return nil
	}
	stream, err := a.live.open(paths, a.guard.authenticateRequest(r), r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	defer stream.close()
	// Bounds of the server for requests would end a stream that is quiet, or lasts.
	c := http.NewResponseController(w)
	if err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Now().Add(a.o.liveWriteTimeout))); err != nil {
		return &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeUnavailable, Message: "this connection cannot carry a stream"}
	}
	h.Set("X-Accel-Buffering", "no") // a proxy that collects answers would show old ones
	w.WriteHeader(http.StatusOK)
	stream.run(r.Context(), time.Duration(every)*livePeriod, func(event []byte) error {
		if err := c.SetWriteDeadline(time.Now().Add(a.o.liveWriteTimeout)); err != nil {
			return err
		}
		if _, err := w.Write(event); err != nil {
			return err
		}
		return c.Flush()
	})
	return nil
}

// liveHub has the streams, and evaluates each path once for all streams that may read the same.
type liveHub struct {
	// evaluate answers a GET of a target with the authority of a header.
	evaluate func(ctx context.Context, target, authorization string) (status int, body []byte)
	// known reports whether there is a path that a stream can have.
	known func(r *http.Request) bool
	// ctx ends with the server.
	ctx  context.Context
	stop context.CancelFunc
	// began is what ticks count from, the same for all streams, so that they meet.
	began time.Time

	evaluations, events atomic.Uint64
	// bytes is how much memory the answers of topics take.
	bytes atomic.Int64

	mu      sync.Mutex
	streams int
	topics  map[topicKey]*liveTopic
}

// topicKey is a path and what its readers may read.
type topicKey struct {
	target string
	level  accessLevel
}

// liveTopic is a path that streams watch.
type liveTopic struct {
	hub           *liveHub
	key           topicKey
	authorization string
	// streams are those that watch it. REQUIRES: hub.mu held.
	streams int

	// mu is held while the path is evaluated: what asks meanwhile gets the same answer.
	mu sync.Mutex
	// tick is that of the last evaluation, begun at 1.
	tick int64
	// version grows when the answer changes, event is the answer as it is sent.
	version uint64
	status  int
	digest  [sha256.Size]byte
	event   []byte
}

// liveStream is what one client watches.
type liveStream struct {
	hub    *liveHub
	topics []*liveTopic
}

// initLive prepares live answers of what serves all requests.
func (a *Admin) initLive(mux *http.ServeMux) {
	watchable := map[string]bool{}
	for _, rt := range a.allRoutes() {
		isJSON := rt.mediaType == "" || rt.mediaType == "application/json"
		// A request for traffic takes operations away from other readers.
		if !rt.isAction() && isJSON && strings.HasPrefix(rt.path, api.PathPrefix+"/") && rt.path != api.PathTraffic {
			watchable[rt.path] = true
		}
	}
	h := &a.live
	h.began, h.topics = time.Now(), map[topicKey]*liveTopic{}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.known = func(r *http.Request) bool {
		_, pattern := mux.Handler(r)
		return watchable[pattern]
	}
	h.evaluate = func(ctx context.Context, target, authorization string) (int, []byte) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		if err != nil { // it was checked when the stream began
			return http.StatusBadRequest, []byte("null")
		}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := memoryWriter{header: http.Header{}, status: http.StatusOK}
		mux.ServeHTTP(&w, r)
		return w.status, w.body.Bytes()
	}
}

// memoryWriter keeps an answer.
type memoryWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header returns the header of the answer.
func (w *memoryWriter) Header() http.Header { return w.header }

// WriteHeader begins the answer.
func (w *memoryWriter) WriteHeader(status int) { w.status = status }

// Write adds to the body.
func (w *memoryWriter) Write(p []byte) (int, error) { return w.body.Write(p) }

// checkPaths returns the paths to watch, each once, in their order.
func (h *liveHub) checkPaths(watch []string) ([]string, error) {
	var paths []string
	for _, target := range watch {
		if slices.Contains(paths, target) {
			continue
		}
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" || path.Clean(u.Path) != u.Path || !h.known(&http.Request{Method: http.MethodGet, URL: u}) {
			return nil, newInvalidError("there is no live answer at "+strconv.Quote(target), "watch other paths below "+api.PathPrefix+" that answer a GET with JSON")
		}
		paths = append(paths, target)
	}
	if len(paths) == 0 || len(paths) > maxLivePaths {
		return nil, newInvalidError(strconv.Itoa(len(paths))+" paths are watched", "give 1 to "+strconv.Itoa(maxLivePaths)+" of them as "+api.QueryWatch)
	}
	return paths, nil
}

// open begins a stream. It is closed by its caller.
func (h *liveHub) open(paths []string, level accessLevel, authorization string) (*liveStream, error) {
	if level == noAccess {
		authorization = "" // readers without a right are all the same
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil || h.streams >= maxLiveStreams || level != fullAccess && h.streams >= maxLiveReaders {
		return nil, &api.Error{
			Status: http.StatusServiceUnavailable, Code: api.CodeUnavailable,
			Message: "there is no room for another stream", Hint: "close a page of this server, or ask for the paths one by one",
		}
	}
	h.streams++
	s := &liveStream{hub: h}
	for _, target := range paths {
		key := topicKey{target, level}
		t := h.topics[key]
		if t == nil {
			t = &liveTopic{hub: h, key: key, authorization: authorization}
			h.topics[key] = t
		}
		t.streams++
		s.topics = append(s.topics, t)
	}
	return s, nil
}

// close ends the stream. What no other one watches is forgotten.
func (s *liveStream) close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.streams--
	for _, t := range s.topics {
		if t.streams--; t.streams == 0 {
			delete(s.hub.topics, t.key)
			t.forget()
		}
	}
}

// run sends what changes until the client or the server ends, or sending fails.
func (s *liveStream) run(ctx context.Context, every time.Duration, send func(event []byte) error) {
	sent := make([]uint64, len(s.topics))
	lastSend := time.Now()
	tick := time.NewTimer(0) // a goroutine that sleeps: nothing runs between two ticks
	defer tick.Stop()
	for next := lastSend; ; {
		if now := time.Now(); !now.Before(next) {
			for i, t := range s.topics {
				version, event := t.refresh()
				if version == sent[i] {
					continue
				}
				if send(event) != nil {
					return
				}
				sent[i], lastSend = version, time.Now()
				s.hub.events.Add(1)
			}
			next = s.hub.nextTick(time.Now(), every)
		}
		if time.Since(lastSend) >= liveHeartbeat {
			if send([]byte(": ping\n\n")) != nil {
				return
			}
			lastSend = time.Now()
		}
		tick.Reset(min(time.Until(next), time.Until(lastSend.Add(liveHeartbeat))))
		select {
		case <-ctx.Done():
			return
		case <-s.hub.ctx.Done():
			_ = send([]byte("event: end\ndata: {}\n\n")) // it ends in any case
			return
		case <-tick.C:
		}
	}
}

// nextTick returns when a stream looks next. Ticks are the same for all streams, so that an
// evaluation serves all of them.
func (h *liveHub) nextTick(now time.Time, every time.Duration) time.Time {
	return h.began.Add((now.Sub(h.began)/every + 1) * every)
}

// refresh evaluates the path unless that was done in this tick, and returns the version of the answer
// and the answer as an event.
func (t *liveTopic) refresh() (version uint64, event []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tick := int64(time.Since(t.hub.began)/livePeriod) + 1
	if tick == t.tick {
		return t.version, t.event
	}
	t.tick = tick
	t.hub.evaluations.Add(1)
	status, body := t.hub.evaluate(t.hub.ctx, t.key.target, t.authorization)
	digest := sha256.Sum256(body)
	if t.version > 0 && status == t.status && digest == t.digest {
		return t.version, t.event
	}
	t.version++
	t.status, t.digest = status, digest
	t.setEvent(formatLiveEvent(t.key.target, status, body))
	return t.version, t.event
}

// setEvent keeps an answer, or an error in its place if there is no room for it. REQUIRES: t.mu held.
func (t *liveTopic) setEvent(event []byte) {
	if t.hub.bytes.Load()-int64(len(t.event))+int64(len(event)) > maxLiveBytes {
		tooMuch, _ := json.Marshal(api.Failure{Error: api.Error{Code: api.CodeTooLarge, Message: "live answers take too much memory", Hint: "watch fewer or smaller ones"}})
		event = formatLiveEvent(t.key.target, http.StatusServiceUnavailable, tooMuch)
	}
	t.hub.bytes.Add(int64(len(event) - len(t.event)))
	t.event = event
}

// forget gives back the memory of a topic without streams.
func (t *liveTopic) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hub.bytes.Add(-int64(len(t.event)))
	t.event = nil
}

// formatLiveEvent is an answer as a server-sent event, which is a line: the body is made one.
func formatLiveEvent(target string, status int, body []byte) []byte {
	data, err := json.Marshal(api.LiveAnswer{Path: target, Status: status, Body: body})
	if err != nil { // the body is no JSON: a mistake of the server
		data, _ = json.Marshal(api.LiveAnswer{Path: target, Status: http.StatusInternalServerError, Body: json.RawMessage("null")})
	}
	return slices.Concat([]byte("event: data\ndata: "), data, []byte("\n\n"))
}

// countStreams returns how many streams there are.
func (h *liveHub) countStreams() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.streams
}
