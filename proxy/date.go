package proxy

import (
	"time"

	"github.com/valyala/fasthttp"
)

// tick updates the clock, and the Date header if the second has changed.
func (s *Server) tick() {
	now := time.Now()
	s.clock.Update(now)
	second := now.Unix()
	if s.dateSecond.Swap(second) == second {
		return
	}
	date := fasthttp.AppendHTTPDate(nil, time.Unix(second, 0))
	s.dateValue.Store(&date)
}

// date returns the value of the Date header. It is up to a second and one sweep old.
func (s *Server) date() []byte { return *s.dateValue.Load() }
