package mdns

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/mdns"
)

// The library changes a response after it has sent it, when another packet has the same name. A host without the secret
// could make a node read fields while they change.
func TestResponsesAreReadAfterTheQueriesHaveEnded(t *testing.T) {
	responses, errs := queryBoth(func(isIPv4 bool, responses chan<- *mdns.ServiceEntry) error {
		if !isIPv4 {
			return errors.New("no IPv6")
		}
		response := &mdns.ServiceEntry{InfoFields: []string{"first"}}
		responses <- response
		for i := range 1000 {
			response.InfoFields = make([]string, i)
			time.Sleep(time.Microsecond)
		}
		response.InfoFields = []string{"last"}
		return nil
	})
	if len(errs) != 1 || len(responses) != 1 || responses[0].InfoFields[0] != "last" {
		t.Errorf("responses %v, errors %v", responses, errs)
	}
}

// Responses that arrive immediately before the end of a query count, and a flood is limited.
func TestResponsesAreComplete(t *testing.T) {
	for count, want := range map[int]int{0: 0, 64: 64, maxResponses + 100: maxResponses} {
		responses, errs := queryBoth(func(isIPv4 bool, responses chan<- *mdns.ServiceEntry) error {
			for i := range count {
				if isIPv4 {
					responses <- &mdns.ServiceEntry{Name: strconv.Itoa(i)}
				}
			}
			return nil
		})
		if len(responses) != want || len(errs) != 0 {
			t.Errorf("%d responses of %d, errors %v", len(responses), count, errs)
		}
	}
}
