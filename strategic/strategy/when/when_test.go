package when

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/mash2-io/mash2/api/v1alpha1"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func date(text string) *metav1.Time { return &metav1.Time{Time: at(text)} }

func every(d time.Duration) v1alpha1.At {
	return v1alpha1.At{Interval: &v1alpha1.Interval{Every: metav1.Duration{Duration: d}}}
}

func crontab(schedule, zone string) v1alpha1.At {
	return v1alpha1.At{Cron: &v1alpha1.Cron{Schedule: schedule, TimeZone: zone}}
}

func TestNext(t *testing.T) {
	bounded := every(5 * time.Minute)
	bounded.Interval.Start, bounded.Interval.End = date("2026-03-02T10:01:00Z"), date("2026-03-02T10:12:00Z")
	for name, c := range map[string]struct {
		when v1alpha1.When
		last string // empty: never read
		want string // empty: never again
	}{
		"an interval that was never read":    {v1alpha1.When{At: every(5 * time.Minute)}, "", "0001-01-01T00:00:00Z"},
		"an interval":                        {v1alpha1.When{At: every(5 * time.Minute)}, "2026-03-02T10:02:00Z", "2026-03-02T10:05:00Z"},
		"an interval, read at its time":      {v1alpha1.When{At: every(5 * time.Minute)}, "2026-03-02T10:05:00Z", "2026-03-02T10:10:00Z"},
		"an interval before its start":       {v1alpha1.When{At: bounded}, "", "2026-03-02T10:01:00Z"},
		"an interval from its start on":      {v1alpha1.When{At: bounded}, "2026-03-02T10:01:00Z", "2026-03-02T10:06:00Z"},
		"an interval after its end":          {v1alpha1.When{At: bounded}, "2026-03-02T10:11:00Z", ""},
		"a date that is to come":             {v1alpha1.When{At: v1alpha1.At{Date: date("2026-03-02T10:00:00Z")}}, "", "2026-03-02T10:00:00Z"},
		"a date that was":                    {v1alpha1.When{At: v1alpha1.At{Date: date("2026-03-02T10:00:00Z")}}, "2026-03-02T10:00:00Z", ""},
		"cron":                               {v1alpha1.When{At: crontab("0 22 * * *", "")}, "2026-03-02T10:00:00Z", "2026-03-02T22:00:00Z"},
		"cron in a time zone":                {v1alpha1.When{At: crontab("0 22 * * *", "Asia/Tokyo")}, "2026-03-02T10:00:00Z", "2026-03-02T13:00:00Z"},
		"cron in summer time":                {v1alpha1.When{At: crontab("0 9 * * *", "Europe/Berlin")}, "2026-07-02T10:00:00Z", "2026-07-03T07:00:00Z"},
		"cron in an hour that is left out":   {v1alpha1.When{At: crontab("30 2 * * *", "Europe/Berlin")}, "2026-03-28T10:00:00Z", "2026-03-29T01:00:00Z"},
		"cron after that hour":               {v1alpha1.When{At: crontab("30 2 * * *", "Europe/Berlin")}, "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		"any of: the first":                  {v1alpha1.When{AnyOf: []v1alpha1.At{crontab("0 22 * * *", ""), every(time.Hour)}}, "2026-03-02T10:00:00Z", "2026-03-02T11:00:00Z"},
		"any of: one that never comes again": {v1alpha1.When{AnyOf: []v1alpha1.At{{Date: date("2026-03-01T10:00:00Z")}, every(time.Hour)}}, "2026-03-02T10:00:00Z", "2026-03-02T11:00:00Z"},
		"all of: the last":                   {v1alpha1.When{AllOf: []v1alpha1.At{crontab("0 22 * * *", ""), every(time.Hour)}}, "2026-03-02T10:00:00Z", "2026-03-02T22:00:00Z"},
		"all of: one that never comes again": {v1alpha1.When{AllOf: []v1alpha1.At{{Date: date("2026-03-01T10:00:00Z")}, every(time.Hour)}}, "2026-03-02T10:00:00Z", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var last time.Time
			if c.last != "" {
				last = at(c.last)
			}
			if err := Check("when", &c.when); err != nil {
				t.Fatal(err)
			}
			got, ok := Next(&c.when, "s", last)
			if ok != (c.want != "") || ok && !got.Equal(at(c.want)) {
				t.Errorf("%v, %v; want %s", got, ok, c.want)
			}
		})
	}
	if _, ok := Next(nil, "s", at("2026-03-02T10:00:00Z")); !ok {
		t.Error("a sensor without a definition isn't due")
	}
}

// Each reading is after the one before and no further from it than every and jitter; with
// the same name the times are the same.
func TestJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := every(time.Duration(rapid.IntRange(1, 600).Draw(t, "every")) * time.Second)
		i := a.Interval
		i.Jitter.Duration = time.Duration(rapid.Int64Range(0, int64(i.Every.Duration)-1).Draw(t, "jitter"))
		w := &v1alpha1.When{At: a}
		if err := Check("when", w); err != nil {
			t.Fatal(err)
		}
		last := at("2026-03-02T10:00:00Z").Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "from")) * time.Second)
		for range 20 {
			next, ok := Next(w, "a", last)
			again, _ := Next(w, "a", last)
			if !ok || !next.Equal(again) || !next.After(last) || next.Sub(last) > i.Every.Duration+i.Jitter.Duration {
				t.Fatalf("after %v: %v, %v", last, next, again)
			}
			last = next
		}
	})
}

// Next ends also for what Check refuses: a Strategy may be stored that an older version took.
func TestNextOfLongAgo(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Interval)
		last   string
	}{
		"a start centuries ago":      {func(i *v1alpha1.Interval) { i.Start = date("1700-01-01T00:00:00Z") }, "2026-03-02T09:00:00Z"},
		"a start far ahead":          {func(i *v1alpha1.Interval) { i.Start = date("9999-01-01T00:00:00Z") }, ""},
		"a reading centuries ahead":  {func(*v1alpha1.Interval) {}, "2700-01-01T00:00:00Z"},
		"a jitter longer than every": {func(i *v1alpha1.Interval) { i.Jitter.Duration = 1<<63 - 1 }, "2026-03-02T09:00:00Z"},
		"an every of centuries":      {func(i *v1alpha1.Interval) { i.Every.Duration = 1<<63 - 1 }, "2026-03-02T09:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &v1alpha1.When{At: every(time.Minute)}
			c.change(w.Interval)
			var last time.Time
			if c.last != "" {
				last = at(c.last)
			}
			done := make(chan bool, 1)
			go func() {
				_, ok := Next(w, "s", last)
				done <- ok
			}()
			select {
			case ok := <-done:
				if ok {
					t.Error("it is due")
				}
			case <-time.After(5 * time.Second):
				t.Fatal("Next does not end")
			}
		})
	}
}

func TestCheck(t *testing.T) {
	started := func(start, end string) v1alpha1.When {
		a := every(time.Minute)
		a.Interval.Start, a.Interval.End = date(start), date(end)
		return v1alpha1.When{At: a}
	}
	for want, w := range map[string]v1alpha1.When{
		"when: must have one of":            {},
		"when.cron.timeZone":                {At: crontab("* * * * *", "Mars")},
		"when.cron.schedule":                {At: crontab("CRON_TZ=UTC * * * * *", "")},
		"never fires":                       {At: crontab("0 0 30 2 *", "")},
		"when.interval.every":               {At: every(0)},
		"when.interval.start: must be in":   started("1700-01-01T00:00:00Z", "2026-03-02T10:00:00Z"),
		"when.interval.end: must be in":     started("2026-03-02T10:00:00Z", "2200-01-01T00:00:00Z"),
		"when.interval.end: must be after":  started("2026-03-02T10:00:00Z", "2026-03-02T10:00:00Z"),
		"when.allOf[1].interval.every":      {AllOf: []v1alpha1.At{every(time.Minute), every(time.Millisecond)}},
		"when.anyOf[0]: must have one of":   {AnyOf: []v1alpha1.At{{}}},
		"when: must have one of interval, ": {At: every(time.Minute), AnyOf: []v1alpha1.At{every(time.Minute)}},
	} {
		if err := Check("when", &w); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", w, err, want)
		}
	}
}
