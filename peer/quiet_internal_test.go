package peer

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A stranger who puts 60 KB of other names into each certificate used to fill the
// log with 80 MB in 3 s: every text was a new one, and none had a bound.
func TestRefusalsOfStrangersAreFewAndShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q quiet
		logged := 0
		for range 10 {
			for i := range 1000 {
				if text := fmt.Sprintf("%d %s", i, strings.Repeat("é", 30_000)); q.fresh(text) {
					logged += len(brief(text))
				}
			}
			time.Sleep(quietFor / 10)
		}
		if most := quietTexts * (maxLogged + 3); logged == 0 || logged > most {
			t.Errorf("%d bytes were logged in a minute, want at most %d", logged, most)
		}
		if n := q.leftOut(); n != 10_000-quietTexts {
			t.Errorf("%d were left out, want %d", n, 10_000-quietTexts)
		}
		if n := q.leftOut(); n != 0 {
			t.Errorf("%d were left out, want none told twice", n)
		}
		if !q.fresh("another") || q.fresh("another") {
			t.Error("a minute later a refusal is not logged, or twice")
		}
	})
}
