package proxy

import (
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"shardway/internal/coarsetime"
)

// serverClock is the coarse clock of a Server, together with the value of the Date header. Any
// goroutine may use it.
type serverClock struct {
	coarsetime.Clock

	dateValue  atomic.Pointer[[]byte] // present value of the Date header
	dateSecond atomic.Int64           // Unix time of that value, in seconds
}

// start starts the clock at the present time.
func (clock *serverClock) start() {
	clock.Start(time.Now())
	clock.tick()
}

// tick updates the clock, and the Date header if the second has changed.
func (clock *serverClock) tick() {
	now := time.Now()
	clock.Update(now)
	second := now.Unix()
	if clock.dateSecond.Swap(second) == second {
		return
	}
	date := fasthttp.AppendHTTPDate(nil, time.Unix(second, 0))
	clock.dateValue.Store(&date)
}

// date returns the value of the Date header. It is up to a second and one sweep old.
func (clock *serverClock) date() []byte { return *clock.dateValue.Load() }
