package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/test/cluster"
)

const (
	// lasts is the default duration of a fault.
	lasts = 15 * time.Second
	// recovery is how soon after a fault's end evictd must have recovered: twice the ten
	// seconds that it promises, to allow for busy machines. The tests of pkg/evict and
	// internal/nodepods verify its longest pauses, which add up to this, in virtual time.
	recovery = 20 * time.Second
	// growth is by how much evictd's memory may grow over a fault: more than the noise of
	// its collector, and less than any leak of a loop that continues to tick.
	growth = 24 << 20
)

// scene is a node under a fault: evictd as a process, and a breakable connection to the real
// API server.
type scene struct {
	*world

	host   *host
	hand   *hand
	proxy  *proxy
	link   *link
	daemon *daemon
	token  string // the path of the file
	// settings of evictd's configuration.
	settings string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{world: newWorld(t), host: newHost(t), proxy: newProxy(t), settings: defaultSettings}
	s.link = newLink(t, s.proxy.server.Listener.Addr().String())
	s.token = filepath.Join(t.TempDir(), "token")
	s.account()
	s.renew("first")
	s.hand = watchOver(s.world, s.host, map[string]int64{"large": 1024, "small": 700})
	for name, holds := range s.hand.held {
		s.host.group(groupOf(s.pod(name, 100)), holds)
	}
	return s
}

// account creates evictd's service account.
func (s *scene) account() {
	s.t.Helper()
	_, err := s.client.CoreV1().ServiceAccounts(s.namespace).Create(s.t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "evictd"},
	}, metav1.CreateOptions{})
	s.must(err)
	_, err = s.client.RbacV1().ClusterRoleBindings().Create(s.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "evictd", Namespace: s.namespace}},
	}, metav1.CreateOptions{})
	s.must(err)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cluster.Patiently(recovery))
		defer cancel()
		_ = s.client.RbacV1().ClusterRoleBindings().Delete(ctx, s.namespace, metav1.DeleteOptions{})
	})
}

// renew writes a token that is valid while a secret of that name exists.
func (s *scene) renew(name string) {
	s.t.Helper()
	secret, err := s.client.CoreV1().Secrets(s.namespace).Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{})
	s.must(err)
	request, err := s.client.CoreV1().ServiceAccounts(s.namespace).CreateToken(s.t.Context(), "evictd", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
			Kind: "Secret", APIVersion: "v1", Name: secret.Name, UID: secret.UID,
		}},
	}, metav1.CreateOptions{})
	s.must(err)
	s.must(os.WriteFile(s.token+".new", []byte(request.Status.Token), 0o600))
	s.must(os.Rename(s.token+".new", s.token))
}

// expire invalidates a token of renew, and waits until the API server rejects it.
func (s *scene) expire(name string) {
	s.t.Helper()
	text, err := os.ReadFile(s.token)
	s.must(err)
	s.must(s.client.CoreV1().Secrets(s.namespace).Delete(s.t.Context(), name, metav1.DeleteOptions{}))
	s.until("the token is refused", func(ctx context.Context) bool {
		review, fault := s.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: string(text)},
		}, metav1.CreateOptions{})
		return fault == nil && !review.Status.Authenticated
	})
	// Requests are accepted for a few more seconds: the API server caches the account.
	config := rest.AnonymousClientConfig(unlimited())
	config.BearerToken = string(text)
	bearer, err := kubernetes.NewForConfig(config)
	s.must(err)
	s.until("requests with the token are refused", func(ctx context.Context) bool {
		_, fault := bearer.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
		return apierrors.IsUnauthorized(fault)
	})
}

// start runs evictd, with more lines in its configuration.
func (s *scene) start(more ...string) {
	s.t.Helper()
	s.startWith(s.settings + lenient + strings.Join(more, "\n") + "\n")
}

func (s *scene) startWith(policy string) {
	s.t.Helper()
	s.daemon = startDaemon(s.t, s.host, s.node, s.link.address, s.proxy.ca.pem, s.token, policy)
}

func (s *scene) ready() bool {
	status, _ := s.daemon.get("/readyz")
	return status == http.StatusOK
}

// pressed makes the node short of 200 MiB: one pod's worth, and either pod would suffice.
func (s *scene) pressed() { s.host.free(300) }

// relieved reports whether evictd has detected the end of the pressure and of its victim.
func (s *scene) relieved() bool {
	pressed, told := s.daemon.metric("evictd_pressure")
	leaving, counted := s.daemon.metric("evictd_victims_in_flight")
	return told && counted && pressed == 0 && leaving == 0 && len(s.hand.taken()) > 0
}

// endure waits, and fails when evictd stops monitoring the node meanwhile.
func (s *scene) endure(during time.Duration) {
	s.t.Helper()
	end := time.Now().Add(during)
	before := s.lastTick(0)
	for time.Now().Before(end) {
		if status, text := s.answer("/livez"); status != http.StatusOK {
			s.t.Fatalf("/livez: %d %s", status, text)
		}
		time.Sleep(200 * time.Millisecond)
	}
	s.lastTick(before + during.Seconds()/2)
}

// lastTick waits for a tick after a time, both in seconds since 1970, and returns the tick's
// time.
func (s *scene) lastTick(after float64) (last float64) {
	s.t.Helper()
	s.within(fmt.Sprintf("the loop ticks after %f", after), func() (told bool) {
		last, told = s.daemon.metric("evictd_last_tick_timestamp_seconds")
		return told && last >= after
	})
	return last
}

// answer returns evictd's response, however late.
func (s *scene) answer(path string) (status int, page string) {
	s.t.Helper()
	s.within("evictd answers", func() bool { status, page = s.daemon.get(path); return status != 0 })
	return status, page
}

// within waits for a condition that must become true soon, after a start or a fault's end,
// and returns how long that took.
func (s *scene) within(what string, met func() bool) time.Duration {
	s.t.Helper()
	begin := time.Now()
	err := wait.PollUntilContextTimeout(s.t.Context(), 20*time.Millisecond, cluster.Patiently(recovery), true,
		func(context.Context) (bool, error) { return met(), nil })
	if err != nil {
		s.t.Fatalf("after %v it is not so that %s", cluster.Patiently(recovery), what)
	}
	return time.Since(begin)
}

// fault is something that goes wrong between evictd and the API server.
type fault struct {
	begin, end func(*scene)
	lasts      time.Duration // 0 means the default
}

// The node becomes short of one pod's worth of memory during the fault. Afterwards that pod
// is evicted, the other is not, and evictd has recovered.
func (f fault) run(t *testing.T) {
	t.Helper()
	s := newScene(t)
	s.start()
	s.within("evictd is ready", s.ready)
	memory, _ := s.daemon.metric("process_resident_memory_bytes")
	f.begin(s)
	s.pressed()
	s.endure(max(f.lasts, lasts))
	if !s.ready() {
		t.Error("not ready, although the pods are known and the node is read")
	}
	f.end(s)
	evicted := s.within("a pod was evicted", func() bool { return len(s.hand.taken()) > 0 })
	relieved := s.within("the pressure is over and no pod is in flight", s.relieved)
	s.endure(3 * time.Second) // time for a second victim
	if got := s.hand.taken(); !slices.Equal(got, []string{"large"}) {
		t.Errorf("evicted %v, want the large pod alone", got)
	}
	now, _ := s.daemon.metric("process_resident_memory_bytes")
	if now > memory+growth {
		t.Errorf("the memory grew from %.0f to %.0f MiB", memory/mebibyte, now/mebibyte)
	}
	t.Logf("after the fault's end: evicted within %v, all over within %v; memory %.0f, then %.0f MiB",
		evicted.Round(time.Millisecond), (evicted + relieved).Round(time.Millisecond), memory/mebibyte, now/mebibyte)
}

// answering is a fault in which a function responds in place of the API server.
func answering(answer func(http.ResponseWriter, *http.Request) bool) fault {
	return fault{
		begin: func(s *scene) { s.proxy.instead(answer); s.link.cut() },
		end:   func(s *scene) { s.proxy.instead(nil) },
	}
}

// refuse responds as the API server and its proxies do in a failure: with a short text and
// the code.
func refuse(w http.ResponseWriter, code int) bool {
	http.Error(w, http.StatusText(code), code)
	return true
}

func isEviction(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/eviction")
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

func TestFaultConnectionRefused(t *testing.T) {
	t.Parallel()
	fault{begin: func(s *scene) { s.link.refuse() }, end: func(s *scene) { s.link.listen() }}.run(t)
}

func TestFaultBlackHole(t *testing.T) {
	t.Parallel()
	fault{begin: func(s *scene) { s.link.hold() }, end: func(s *scene) { s.link.release() }}.run(t)
}

// A connection is lost permanently, as when a device in between drops its state: nothing is
// received on the existing connections, and new ones work.
func TestFaultConnectionsForgotten(t *testing.T) {
	t.Parallel()
	fault{
		begin: func(s *scene) { s.link.hold() },
		end:   func(s *scene) { s.link.forget() },
	}.run(t)
}

func TestFaultResetBeforeTheRequestArrives(t *testing.T) {
	t.Parallel()
	fault{
		begin: func(s *scene) {
			s.proxy.instead(func(_ http.ResponseWriter, r *http.Request) bool {
				if isEviction(r) {
					s.link.cut()
				}
				return isEviction(r)
			})
		},
		end: func(s *scene) { s.proxy.instead(nil) },
	}.run(t)
}

// The eviction succeeds, but its response is lost, and the pod cannot be read either.
func TestFaultResetBeforeTheAnswerArrives(t *testing.T) {
	t.Parallel()
	fault{
		begin: func(s *scene) {
			s.proxy.after(func(r *http.Request) {
				if isEviction(r) || strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/"+s.namespace+"/pods/") {
					s.link.cut()
				}
			})
		},
		end: func(s *scene) { s.proxy.after(nil) },
	}.run(t)
}

func TestFaultServerErrorsForAMinute(t *testing.T) {
	t.Parallel()
	f := answering(func(w http.ResponseWriter, _ *http.Request) bool {
		return refuse(w, http.StatusServiceUnavailable)
	})
	f.lasts = time.Minute
	f.run(t)
}

func TestFaultInternalErrors(t *testing.T) {
	t.Parallel()
	answering(func(w http.ResponseWriter, _ *http.Request) bool {
		return refuse(w, http.StatusInternalServerError)
	}).run(t)
}

// Responds like priority and fairness, and counts evictd's requests meanwhile.
func TestFaultStormOf429(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	f := answering(func(w http.ResponseWriter, r *http.Request) bool {
		if isEviction(r) {
			asked.Add(1)
		}
		w.Header().Set("Retry-After", "1")
		return refuse(w, http.StatusTooManyRequests)
	})
	f.run(t)
	if n := asked.Load(); n < 2 || n > 8 {
		t.Errorf("%d eviction requests in %v of 429, want a few", n, lasts)
	}
}

func TestFaultSlowAnswers(t *testing.T) {
	t.Parallel()
	answering(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-time.After(4 * time.Second):
		case <-r.Context().Done():
		}
		return false
	}).run(t)
}

func TestFaultWatchCut(t *testing.T) {
	t.Parallel()
	answering(func(w http.ResponseWriter, r *http.Request) bool {
		return isWatch(r) && refuse(w, http.StatusServiceUnavailable)
	}).run(t)
}

// The watch is open but delivers nothing: evictd does not see its victim end.
func TestFaultWatchStale(t *testing.T) {
	t.Parallel()
	fault{
		begin: func(s *scene) { s.proxy.holdWatches(true) },
		end:   func(s *scene) { s.proxy.holdWatches(false) },
	}.run(t)
}

func TestFaultTokenExpired(t *testing.T) {
	t.Parallel()
	fault{
		begin: func(s *scene) { s.expire("first"); s.link.cut() },
		end:   func(s *scene) { s.renew("second") },
	}.run(t)
}

func TestFaultServingCertificateRotated(t *testing.T) {
	t.Parallel()
	fault{
		begin: func(s *scene) { s.proxy.rotate(); s.link.cut() },
		end:   func(*scene) {},
	}.run(t)
}

func TestFaultAPIServersClockIsAnHourAhead(t *testing.T) {
	t.Parallel()
	skewedBy(time.Hour).run(t)
}

func TestFaultAPIServersClockIsAnHourBehind(t *testing.T) {
	t.Parallel()
	skewedBy(-time.Hour).run(t)
}

func skewedBy(d time.Duration) fault {
	return fault{
		begin: func(s *scene) { s.proxy.skew.Store(int64(d)); s.link.cut() },
		end:   func(*scene) {},
	}
}

// Not parallel: every test's API server loses its store.
func TestFaultEtcdStopped(t *testing.T) {
	fault{
		begin: func(s *scene) { s.must(shared.StopProcess(t.Context(), "etcd")) },
		end: func(s *scene) {
			s.must(shared.StartProcess(t.Context(), "etcd"))
			s.until("the API server has its store again", func(ctx context.Context) bool {
				_, err := s.client.CoreV1().Pods(s.namespace).Patch(ctx, "small", types.MergePatchType,
					[]byte(`{"metadata":{"annotations":{"etcd":"back"}}}`), metav1.PatchOptions{})
				return err == nil
			})
		},
	}.run(t)
}

// When evictd starts while the API server is not available, it reports that it is not ready,
// and why, and evicts no pod that it does not know.
func TestFaultAtTheStart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.link.refuse()
	s.start()
	s.pressed()
	s.within("evictd answers", func() bool { code, _ := s.daemon.get("/livez"); return code == http.StatusOK })
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		code, text := s.answer("/readyz")
		if code != http.StatusServiceUnavailable || !strings.Contains(text, "pods are not known") {
			t.Fatalf("/readyz: %d %q, want 503 and why", code, text)
		}
	}
	s.link.listen()
	ready := s.within("evictd is ready", s.ready)
	evicted := s.within("a pod was evicted", func() bool { return len(s.hand.taken()) > 0 })
	s.within("the pressure is over", s.relieved)
	if got := s.hand.taken(); !slices.Equal(got, []string{"large"}) {
		t.Errorf("evicted %v, want the large pod alone", got)
	}
	t.Logf("after the fault's end: ready within %v, evicted within %v", ready.Round(time.Millisecond), (ready + evicted).Round(time.Millisecond))
}

// expectVictims waits for the end of the pressure and fails the test unless exactly these
// pods were evicted.
func (s *scene) expectVictims(want ...string) {
	s.t.Helper()
	s.within("the pressure is over and no pod is in flight", s.relieved)
	s.endure(2 * time.Second) // time for one more victim
	if got := s.hand.taken(); !slices.Equal(got, want) {
		s.t.Errorf("evicted %v, want %v", got, want)
	}
}

// counted returns how many requests had the outcome.
func (s *scene) counted(outcome string) (n float64) {
	s.t.Helper()
	s.within("evictd tells how many requests were "+outcome, func() (told bool) {
		n, told = s.daemon.metric("evictd_evictions_total", "outcome", outcome)
		return told
	})
	return n
}

// told waits for an Event on a pod of the namespace.
func (s *scene) told(pod, reason string) {
	s.t.Helper()
	s.until(pod+" has the Event "+reason, func(ctx context.Context) bool { return s.event(ctx, pod, reason) != "" })
}
