package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// TicketDay is how long one key encrypts session tickets for clients. Tickets of the
// previous key are still accepted, so a ticket is valid for one to two days.
const TicketDay = 24 * time.Hour

// TicketDayOf returns the number of the UTC day that contains now. It is the same on every
// node.
func TicketDayOf(now time.Time) int64 { return now.Unix() / int64(TicketDay/time.Second) }

// TicketKeys returns the keys for TLS session tickets of clients on the given day, in the
// format of tls.Config.SetSessionTicketKeys. The first key encrypts new tickets, all keys
// decrypt. The first key belongs to the first secret; the others belong to that secret on
// the day before, and to the other accepted secrets.
//
// certNamesHash is a hash of the names for which the server certificate is valid. It is part of
// each key, so a client cannot resume a session of one server name with a server that has a
// certificate for other names.
func (l List) TicketKeys(day int64, certNamesHash [sha256.Size]byte) [][32]byte {
	keys := make([][32]byte, 0, 2*len(l))
	for _, s := range l {
		for _, keyDay := range []int64{day, day - 1} {
			label := labelTicket + strconv.FormatInt(keyDay, 10) + ", certificate for " + hex.EncodeToString(certNamesHash[:])
			keys = append(keys, [32]byte(s.derive(label, 32)))
		}
	}
	return keys
}
