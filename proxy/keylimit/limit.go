package keylimit

import (
	"strconv"
	"time"
)

// Limit limits the requests of each key. The zero value limits nothing.
type Limit struct {
	Interval   time.Duration // average time between two requests; zero means no limit
	Burst      int           // requests that may follow each other without a pause; at least 1 with Interval
	Concurrent int           // requests that run at the same time; zero means no limit
	BodyRate   int64         // bytes of request bodies per second; zero means no limit
}

// IsOff reports whether the limit limits nothing.
func (l *Limit) IsOff() bool { return *l == Limit{} }

// Kind is the kind of a limit that a request exceeds.
type Kind uint8

// The kinds of limits.
const (
	Requests   Kind = iota // the rate of requests
	Concurrent             // the number of requests that run at the same time
	BodyBytes              // the rate of bytes in request bodies
	KindCount  int  = iota
)

// String returns the name of the kind in metrics, headers and error responses.
func (k Kind) String() string {
	switch k {
	case Concurrent:
		return "concurrent-requests"
	case BodyBytes:
		return "content-bytes"
	case Requests:
	}
	return "requests"
}

// Denial describes a request that exceeds a limit.
type Denial struct {
	Kind Kind
	// RetryAfter is when the key may send its next request. It is a guess for Concurrent.
	RetryAfter time.Duration
}

// AppendHeaders appends the header lines RateLimit-Policy and RateLimit for a request that was denied, as
// in draft-ietf-httpapi-ratelimit-headers. The name of the policy is the kind of the limit, which is also
// its quota unit.
func (d *Denial) AppendHeaders(dst []byte, limit *Limit) []byte {
	quota, window := int64(limit.Burst), time.Duration(limit.Burst)*limit.Interval
	switch d.Kind {
	case Concurrent:
		quota, window = int64(limit.Concurrent), 0
	case BodyBytes:
		quota, window = limit.BodyRate, time.Second
	case Requests:
	}
	dst = append(dst, `RateLimit-Policy: "`...)
	dst = append(dst, d.Kind.String()...)
	dst = append(dst, `";q=`...)
	dst = strconv.AppendInt(dst, quota, 10)
	if d.Kind != Requests {
		dst = append(dst, `;qu="`...)
		dst = append(dst, d.Kind.String()...)
		dst = append(dst, '"')
	}
	if window > 0 {
		dst = append(dst, ";w="...)
		dst = strconv.AppendInt(dst, seconds(window), 10)
	}
	dst = append(dst, "\r\nRateLimit: \""...)
	dst = append(dst, d.Kind.String()...)
	dst = append(dst, `";r=0;t=`...)
	dst = strconv.AppendInt(dst, seconds(d.RetryAfter), 10)
	return append(dst, "\r\n"...)
}

// seconds returns a duration in seconds, rounded up, and at least one.
func seconds(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}
