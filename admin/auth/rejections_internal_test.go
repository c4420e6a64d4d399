package auth

import (
	"fmt"
	"testing"
	"time"
)

// Log lines about rejections are limited for many addresses together. Once, one IPv6 site with 65 536
// networks got ten log lines a minute for each network.
func TestRefusalsOfManyAddressesAreBounded(t *testing.T) {
	var f RejectionLimit
	now := time.Now()
	free := 0
	for range 3 {
		for n := range 5000 {
			if f.Add(fmt.Sprintf("[2001:db8:0:%x::1]:4711", n), now) == 0 {
				free++
			}
		}
	}
	if free != maxRejections {
		t.Errorf("%d refusals of one minute are logged, want %d", free, maxRejections)
	}
	if wait := f.Add("192.0.2.1:5", now.Add(10*time.Second)); wait != 50*time.Second {
		t.Errorf("another one waits %v, want until the minute is over", wait)
	}
	if wait := f.Add("192.0.2.1:5", now.Add(time.Minute)); wait != 0 {
		t.Errorf("it waits %v a minute later", wait)
	}
}
