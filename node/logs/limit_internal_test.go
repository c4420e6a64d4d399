package logs

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The limiter forgets old texts. Once, the first 256 texts kept their places forever. Addresses of strangers filled them within a second,
// and from then on all other messages of the library shared one line in ten seconds until the end of the process.
func TestLimitForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimit()
		flood := func() (passed int) {
			for i := range 10_000 {
				if _, ok := l.allow(fmt.Sprintf("failed: read tcp 10.0.0.1:7946->10.0.0.2:%d", i)); ok {
					passed++
				}
			}
			return passed
		}
		if n := flood(); n > maxMessages+1 {
			t.Errorf("%d lines of a flood were written at once", n)
		}
		if _, ok := l.allow("something else"); ok {
			t.Error("written though there is no place: the bound does not hold")
		}
		time.Sleep(repeatInterval)
		if suppressed, ok := l.allow("something else"); !ok || suppressed != 0 {
			t.Errorf("allow = %d, %v after the flood, want it written", suppressed, ok)
		}
		if n := flood(); n > maxMessages+1 {
			t.Errorf("%d lines of a flood were written at once", n)
		}
		if n := len(l.seen); n > maxMessages {
			t.Errorf("%d texts are remembered", n)
		}
	})
}

func TestLimitTakesOneTextFromManyAddressesForOne(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		l := newLimit()
		passed := 0
		for i := range 1000 {
			if _, ok := l.allow(fmt.Sprintf("failed to receive: EOF from=10.0.0.1:%d", i)); ok {
				passed++
			}
		}
		if passed != 1 {
			t.Errorf("%d lines, want 1", passed)
		}
		time.Sleep(repeatInterval)
		if suppressed, ok := l.allow("failed to receive: EOF from=10.0.0.1:1"); !ok || suppressed != 999 {
			t.Errorf("allow = %d, %v, want 999 left out", suppressed, ok)
		}
		if got := truncateText(strings.Repeat("é", maxMessageLen)); len(got) > maxMessageLen+3 {
			t.Errorf("a text of %d bytes is written", len(got))
		}
	})
}
