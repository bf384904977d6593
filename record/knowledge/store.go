package knowledge

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// File is the name of a knowledge base in the folder of records.
const File = "knowledge.db"

// Defaults of a Store.
const (
	DefaultMaxAge   = 90 * 24 * time.Hour
	DefaultMaxBytes = 64 << 20
)

// wait is how long another process may keep the file to itself.
const wait = 5 * time.Second

// Store is a knowledge base in one file. The file is open only while something is read or
// written, so that a command can search it beside the operator that writes it. It is for
// several goroutines.
type Store struct {
	// Path of the file; it and its folder are made.
	Path string
	// MaxAge of entries, by the time of the newest one. MaxBytes of the entries of all
	// kinds together: the oldest ones of the kind that takes most go first. 0 is unbounded.
	MaxAge   time.Duration
	MaxBytes int64
	// Now is the wall clock; time.Now if nil.
	Now func() time.Time

	mu     sync.Mutex // one of them at a time opens the file
	broken error
}

// Open is the store in a folder, with the default bounds.
func Open(dir string) *Store {
	return &Store{Path: filepath.Join(dir, File), MaxAge: DefaultMaxAge, MaxBytes: DefaultMaxBytes}
}

// There reports whether the file is.
func (s *Store) There() bool {
	info, err := os.Stat(s.Path)
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}

// meta is the bucket of what is known of the others: how many bytes a kind has.
var meta = []byte("meta")

// key orders entries by time. The same thing at the same time has the same key: what is
// told twice is kept once.
func key(e Entry) []byte {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s", e.About, e.Name, e.Params["model"], e.Text)
	out := make([]byte, 16)
	binary.BigEndian.PutUint64(out, uint64(e.Time.UnixNano()))
	binary.BigEndian.PutUint64(out[8:], h.Sum64())
	return out
}

func (s *Store) open(readOnly bool) (*bbolt.DB, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	options := *bbolt.DefaultOptions
	options.Timeout, options.ReadOnly = wait, readOnly
	if !readOnly {
		if err := os.MkdirAll(filepath.Dir(s.Path), 0o700); err != nil {
			return nil, err
		}
	}
	db, err := bbolt.Open(s.Path, 0o600, &options)
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return nil, fmt.Errorf("the knowledge base %s is in use by another process", s.Path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the knowledge base %s: %w", s.Path, err)
	}
	return db, err
}

// guarded lets a damaged file be an error, which is set by the function returned: its pages
// are read as memory, so that wild pointers in it are faults.
func (s *Store) guarded(err *error) func() {
	was := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(was)
		s.damaged(recover(), err)
	}
}

func (s *Store) damaged(p any, err *error) {
	if p != nil {
		// The file stays locked by this process: it is not tried again.
		s.broken = fmt.Errorf("the knowledge base %s is damaged: %v; delete it and start again: what records tell comes back", s.Path, p)
		*err = s.broken
	}
}

// claimed is the mark, beside the sums, of a file that has what records tell.
var claimed = []byte("claimed")

// Claim notes that what records tell is kept here from now on. Without it there is only what
// people added.
func (s *Store) Claim() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.guarded(&err)()
	db, err := s.open(false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(meta)
		if err != nil {
			return err
		}
		return b.Put(claimed, claimed)
	})
	return errors.Join(err, db.Close())
}

// Claimed reports whether a Keeper has ever written here.
func (s *Store) Claimed() (is bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.There() {
		return false, nil
	}
	defer s.guarded(&err)()
	db, err := s.open(true)
	if err != nil {
		return false, err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(meta)
		is = b != nil && b.Get(claimed) != nil
		return nil
	})
	return is, errors.Join(err, db.Close())
}

// Add keeps entries, and drops what is beyond the bounds. Either all of them are kept or,
// with an error, none. An ErrEntry is of an entry that can't be kept.
func (s *Store) Add(entries ...Entry) (err error) {
	for i := range entries {
		if n := len(entries[i].Text); n > mostText {
			entries[i].Text = entries[i].Text[:mostText-3] + "…"
		}
		if err := entries[i].Validate(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.guarded(&err)()
	db, err := s.open(false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		sums, err := tx.CreateBucketIfNotExists(meta)
		if err != nil {
			return err
		}
		newest := time.Time{}
		for _, e := range entries {
			b, err := tx.CreateBucketIfNotExists([]byte(e.Kind))
			if err != nil {
				return err
			}
			value, err := json.Marshal(e)
			if err != nil {
				return err
			}
			k := key(e)
			grown := int64(len(value) + len(k))
			if was := b.Get(k); was != nil {
				grown -= int64(len(was) + len(k))
			}
			if err := errors.Join(b.Put(k, value), addTo(sums, e.Kind, grown)); err != nil {
				return err
			}
		}
		for _, kind := range Kinds() {
			if b := tx.Bucket([]byte(kind)); b != nil {
				if k, _ := b.Cursor().Last(); k != nil {
					if at := timeOf(k); at.After(newest) {
						newest = at
					}
				}
			}
		}
		// A clock that was wrong once must not make everything old.
		now := time.Now
		if s.Now != nil {
			now = s.Now
		}
		if latest := now().Add(time.Hour); newest.After(latest) {
			newest = latest
		}
		return s.bound(tx, sums, newest)
	})
	return errors.Join(err, db.Close())
}

func timeOf(k []byte) time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64(k))).UTC()
}

func sumOf(sums *bbolt.Bucket, kind Kind) int64 {
	v := sums.Get([]byte(kind))
	if len(v) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(v))
}

func addTo(sums *bbolt.Bucket, kind Kind, n int64) error {
	return sums.Put([]byte(kind), binary.BigEndian.AppendUint64(nil, uint64(sumOf(sums, kind)+n)))
}

// bound drops what is too old, and the oldest of the largest kinds while all are too large.
func (s *Store) bound(tx *bbolt.Tx, sums *bbolt.Bucket, newest time.Time) error {
	drop := func(kind Kind, while func(at time.Time) bool) error {
		b := tx.Bucket([]byte(kind))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, v := c.First(); k != nil && while(timeOf(k)); k, v = c.Next() {
			if err := errors.Join(addTo(sums, kind, -int64(len(k)+len(v))), c.Delete()); err != nil {
				return err
			}
		}
		return nil
	}
	if s.MaxAge > 0 {
		for _, kind := range Kinds() {
			if err := drop(kind, func(at time.Time) bool { return at.Before(newest.Add(-s.MaxAge)) }); err != nil {
				return err
			}
		}
	}
	if s.MaxBytes <= 0 {
		return nil
	}
	all := func() (sum int64) {
		for _, kind := range Kinds() {
			sum += sumOf(sums, kind)
		}
		return sum
	}
	for all() > s.MaxBytes {
		largest := slices.MaxFunc(Kinds(), func(a, b Kind) int { return int(sumOf(sums, a) - sumOf(sums, b)) })
		// A tenth at once: not each entry costs a search for the next.
		target := max(0, sumOf(sums, largest)*9/10)
		before := sumOf(sums, largest)
		if err := drop(largest, func(time.Time) bool { return sumOf(sums, largest) > target }); err != nil {
			return err
		}
		if sumOf(sums, largest) >= before {
			return nil // nothing there is to drop
		}
	}
	return nil
}

// Search returns the entries that a query wants, in order of time. Without a file there are
// none. An ErrEntry is of a query that can't be answered.
func (s *Store) Search(q Query) (found []Entry, err error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.There() {
		return nil, nil
	}
	defer s.guarded(&err)()
	db, err := s.open(true)
	if err != nil {
		return nil, err
	}
	var out []Entry
	err = db.View(func(tx *bbolt.Tx) error {
		for _, kind := range Kinds() {
			b := tx.Bucket([]byte(kind))
			if b == nil || q.Kind != "" && q.Kind != kind {
				continue
			}
			found, err := newest(b, q)
			if err != nil {
				return err
			}
			out = append(out, found...)
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return a.Time.Compare(b.Time) })
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[len(out)-q.Limit:]
	}
	return out, nil
}

// newest entries of a kind that fit, back from the last time that is wanted.
func newest(b *bbolt.Bucket, q Query) ([]Entry, error) {
	c := b.Cursor()
	k, v := c.Last()
	if !q.To.IsZero() {
		after := binary.BigEndian.AppendUint64(nil, uint64(q.To.UnixNano())+1)
		if found, _ := c.Seek(after); found != nil {
			k, v = c.Prev()
		} else {
			k, v = c.Last()
		}
	}
	var out []Entry
	for ; k != nil && (q.From.IsZero() || !timeOf(k).Before(q.From)); k, v = c.Prev() {
		var e Entry
		if err := json.Unmarshal(v, &e); err != nil {
			return nil, fmt.Errorf("an entry can't be read: %w", err)
		}
		if !q.fits(e, bytes.Clone(v)) {
			continue
		}
		if out = append(out, e); q.Limit > 0 && len(out) == q.Limit {
			break
		}
	}
	slices.Reverse(out)
	return out, nil
}

// Newest is the time of the newest reading or decision, which people don't add: up to then
// records are known.
func (s *Store) Newest() (time.Time, error) {
	var out time.Time
	for _, kind := range []Kind{KindReading, KindDecision} {
		found, err := s.Search(Query{Kind: kind, Limit: 1})
		if err != nil {
			return out, err
		}
		if len(found) > 0 && found[0].Time.After(out) {
			out = found[0].Time
		}
	}
	return out, nil
}
