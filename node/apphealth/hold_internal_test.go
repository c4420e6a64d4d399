package apphealth

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// An app whose shards wait for its restart keeps them while it refuses connections. Once, a restarted app lost all its shards for the
// second that the restart took, and got them back.
func TestAppThatRefusesKeepsItsShardsForAWhile(t *testing.T) {
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	set := Settings{Interval: 500 * time.Millisecond, Timeout: time.Second, Fall: 3, Rise: 1, Hold: 8 * time.Second}
	runChecks(t, set, func(c *checked) {
		c.until(t, true)
		c.is(refused, 0)
		time.Sleep(7 * time.Second)
		if !c.Healthy() {
			t.Fatal("its shards move while it may come back")
		}
		c.is(nil, 0)
		time.Sleep(5 * time.Second)
		c.is(refused, 0)
		if took := c.until(t, false); took > 2*time.Second {
			t.Errorf("it refused again within a minute, and its shards waited for %v", took)
		}
		c.is(nil, 0)
		c.until(t, true)
		time.Sleep(time.Minute)
		synctest.Wait() // a check may be due at this instant
		good := len(c.checks())
		c.is(refused, 0)
		c.until(t, false)
		at := c.checks()
		if held := at[len(at)-1] - at[good]; held < set.Hold || held > set.Hold+575*time.Millisecond {
			t.Errorf("an app that never comes back was waited for %v after the first refusal, want 8s, until the next check", held)
		}
	})
	runChecks(t, set, func(c *checked) {
		c.until(t, true)
		c.is(errors.New("sick"), 0)
		if took := c.until(t, false); took > 2*time.Second {
			t.Errorf("a sick app that takes connections was waited for %v", took)
		}
	})
}
