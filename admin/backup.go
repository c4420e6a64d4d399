package admin

import (
	"net/http"
)

// backup responds with the control state that this node has applied, as a file.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	b, err := s.api.Cluster.Backup()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Disposition", `attachment; filename="shardway.backup"`)
	writeOK(w, "application/octet-stream", b)
	return nil
}
