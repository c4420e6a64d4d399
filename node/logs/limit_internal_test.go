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
				if _, ok := l.pass(fmt.Sprintf("failed: read tcp 10.0.0.1:7946->10.0.0.2:%d", i)); ok {
					passed++
				}
			}
			return passed
		}
		if n := flood(); n > maxTexts+1 {
			t.Errorf("%d lines of a flood were written at once", n)
		}
		if _, ok := l.pass("something else"); ok {
			t.Error("written though there is no place: the bound does not hold")
		}
		time.Sleep(repeatInterval)
		if left, ok := l.pass("something else"); !ok || left != 0 {
			t.Errorf("pass = %d, %v after the flood, want it written", left, ok)
		}
		if n := flood(); n > maxTexts+1 {
			t.Errorf("%d lines of a flood were written at once", n)
		}
		if n := len(l.seen); n > maxTexts {
			t.Errorf("%d texts are remembered", n)
		}
	})
}

func TestLimitTakesOneTextFromManyAddressesForOne(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		l := newLimit()
		passed := 0
		for i := range 1000 {
			if _, ok := l.pass(fmt.Sprintf("failed to receive: EOF from=10.0.0.1:%d", i)); ok {
				passed++
			}
		}
		if passed != 1 {
			t.Errorf("%d lines, want 1", passed)
		}
		time.Sleep(repeatInterval)
		if left, ok := l.pass("failed to receive: EOF from=10.0.0.1:1"); !ok || left != 999 {
			t.Errorf("pass = %d, %v, want 999 left out", left, ok)
		}
		if got := truncateText(strings.Repeat("é", maxText)); len(got) > maxText+3 {
			t.Errorf("a text of %d bytes is written", len(got))
		}
	})
}
