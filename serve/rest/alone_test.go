package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mash2-io/mash2/record"
)

// TestRecordsAreReadOneAtATime: who has to wait for too long is told to come again, and keeps
// nobody from reading.
func TestRecordsAreReadOneAtATime(t *testing.T) {
	store := storeOf(3, "shop")
	store.config.Otherwise = func(context.Context, time.Time, Otherwise) (any, error) { return record.Explanation{}, nil }
	h := (&Server{Store: store, Auth: Everybody{}}).Handler()
	done, err := store.alone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(gone, http.MethodGet, "/api/v1/otherwise?with=quantile=0.9", nil)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "try again") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	done()
	if status, body := ask(t, h, http.MethodGet, "/api/v1/otherwise?with=quantile=0.9"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
}
