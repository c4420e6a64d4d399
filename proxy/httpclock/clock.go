// Package httpclock provides the coarse clock of the proxy and the value of the Date header.
//
// The value of Date (RFC 9110, section 6.6.1) is formatted once per second instead of once per response.
//
// The sweeping goroutine calls Tick. Any goroutine may call the other methods.
package httpclock

import (
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/internal/coarsetime"
)

// Clock is a coarse clock, together with the value of the Date header.
type Clock struct {
	coarsetime.Clock

	dateValue  atomic.Pointer[[]byte] // current value of the Date header
	dateSecond atomic.Int64           // Unix time of that value, in seconds
}

// Init starts the clock at the current time. It must be called before all other methods.
func (clock *Clock) Init() {
	clock.Start(time.Now())
	clock.Tick()
}

// Tick updates the clock, and the Date header if the second has changed.
func (clock *Clock) Tick() {
	now := time.Now()
	clock.Update(now)
	second := now.Unix()
	if clock.dateSecond.Swap(second) == second {
		return
	}
	date := fasthttp.AppendHTTPDate(nil, time.Unix(second, 0))
	clock.dateValue.Store(&date)
}

// Date returns the value of the Date header. It is up to a second and one sweep old.
func (clock *Clock) Date() []byte { return *clock.dateValue.Load() }
