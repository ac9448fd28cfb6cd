package partition

import (
	"errors"
	"strings"
	"testing"
)

func TestBadKeyspacesAreRefusedWithWhatToChange(t *testing.T) {
	for name, test := range map[string]struct {
		k    Keyspace
		want string // "" for a good one
	}{
		"default":     {Keyspace{Name: "default"}, ""},
		"layout":      {Keyspace{Name: "t", Kind: Range, Layout: "(region, hour(ts)) | id"}, ""},
		"few slots":   {Keyspace{Name: "t", Slots: 64}, ""},
		"no name":     {Keyspace{}, "use 1 to 128"},
		"long name":   {Keyspace{Name: strings.Repeat("n", 129)}, "use 1 to 128"},
		"odd name":    {Keyspace{Name: "a b"}, "printable ASCII"},
		"kind":        {Keyspace{Name: "t", Kind: 7}, "use hash or range"},
		"slots":       {Keyspace{Name: "t", Slots: 3}, "power of two"},
		"many slots":  {Keyspace{Name: "t", Slots: 1 << 15}, "power of two"},
		"range slots": {Keyspace{Name: "t", Kind: Range, Slots: 4}, "no slots"},
		"bad layout":  {Keyspace{Name: "t", Layout: "(("}, "layout"},
	} {
		err := test.k.Validate()
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, ErrKeyspace) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an ErrKeyspace with %q", name, err, test.want)
		}
	}
}
