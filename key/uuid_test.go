package key

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestUUIDTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
		for _, text := range []string{u.String(), strings.ToUpper(u.String())} {
			if back, err := ParseUUID(text); err != nil || back != u {
				t.Fatalf("%s reads back as %v, %v", text, back, err)
			}
		}
	})
}

func TestWhatIsNotAUUIDIsRefused(t *testing.T) {
	const good = "01890a5d-ac96-774b-bcce-b302099a8057"
	for _, text := range []string{
		"", good[1:], good + "0", "{" + good[2:] + "}", strings.ReplaceAll(good, "-", "_"),
		strings.ReplaceAll(good, "-", "0"), strings.Replace(good, "a", "g", 1), good[:35] + "\xff",
	} {
		if u, err := ParseUUID(text); !errors.Is(err, ErrUUID) || u != (UUID{}) {
			t.Errorf("%q: %v, %v", text, u, err)
		}
	}
}
