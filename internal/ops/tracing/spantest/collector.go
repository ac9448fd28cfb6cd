// Package spantest answers one question: what did a server send to its collector of spans?
//
// It receives OTLP over HTTP on loopback, as a collector does, for tests. It keeps
// everything: it is for short ones.
package spantest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one that was received.
type Span struct {
	Service, Name, TraceID string
	Start, End             time.Time
	Failed                 bool
	Attributes             map[string]string
}

// Collector receives spans.
type Collector struct {
	// URL is what to send them to.
	URL string

	mu    sync.Mutex
	spans []Span
}

// Start starts a collector that ends with the test.
func Start(t *testing.T) *Collector {
	c := &Collector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.receiveSpans(r); err != nil {
			t.Errorf("a collector was sent %s: %v", r.URL.Path, err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

func (c *Collector) receiveSpans(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" {
		return fmt.Errorf("%s of %s", r.Method, r.Header.Get("Content-Type"))
	}
	var got collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &got); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range got.ResourceSpans {
		service := toAttributes(resource.Resource.Attributes)["service.name"]
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, Span{
					Service: service, Name: s.Name, TraceID: fmt.Sprintf("%x", s.TraceId), Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)),
					Failed: s.Status.GetCode() == 2, Attributes: toAttributes(s.Attributes),
				})
			}
		}
	}
	return nil
}

// toAttributes are those of a span as text.
func toAttributes(list []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			all[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			all[a.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_DoubleValue:
			all[a.Key] = fmt.Sprint(v.DoubleValue)
		}
	}
	return all
}

// FindByName returns the spans of a name.
func (c *Collector) FindByName(name string) []Span {
	return slices.DeleteFunc(c.All(), func(s Span) bool { return s.Name != name })
}

// All returns all spans.
func (c *Collector) All() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}
