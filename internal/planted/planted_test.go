package planted

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cleavekv/cleave/internal/tally"
)

// guard is the smallest test that must catch a planted bug.
type guard struct {
	folder, test string
	flags        []string
}

// quiet are flags for tests with random data: a failure is what we want here,
// not its smallest form.
var quiet = []string{"-rapid.nofailfile", "-rapid.shrinktime=1ms"}

var (
	guardLog     = guard{folder: "internal/wal", test: "TestAcknowledgedEntriesSurviveCrashes"}
	guardRows    = guard{"internal/rows", "TestPinnedRowsAreNeverLostAndNoRowIsEverStale", append([]string{"-rapid.checks=500"}, quiet...)}
	guardEdges   = guard{"internal/command", "TestEdgesAnswerLikeRedis", quiet}
	guardForward = guard{"internal/group", "TestVersionsAndTimeGoForwardOverCrashes", quiet}
	guardRetries = guard{"internal/group", "TestARequestIsExecutedOnce", quiet}
	guardTxns    = guard{"internal/txn", "TestWhatIsDecidedHappensEverywhereAndNothingElseDoes", quiet}
	guardMoves   = guard{folder: "internal/mover", test: "TestOneGroupServesEachPositionAndNothingIsLostWhateverHappens"}
	guardSim     = guard{folder: "internal/sim", test: "TestPromisesAreKeptWhateverHappens"}
	guardWay     = guard{folder: "internal/sim", test: "TestTransactionsInEachOthersWayHappenOneAfterTheOther"}
	guardFeed    = guard{folder: ".", test: "TestTheFeedFollowsKeysFromStoreToStore"}
	guardTable   = guard{"table", "TestATableIsASortedListOfRowsWhateverItsLayout", append([]string{"-rapid.checks=500"}, quiet...)}
	guardHistory = guard{".", "TestHistoriesAreLinearizableOverCrashes", quiet}
	guardCounter = guard{"counter", "TestACounterIsOneNumber", quiet}
	guardQueues  = guard{folder: "internal/sim", test: "TestQueuesKeepWhatTheyPromiseWhateverHappens"}
	guardRounds  = guard{folder: "internal/sim", test: "TestTransactionsSeeWhoHasComeWhateverHappens"}
	guardSplits  = guard{folder: "internal/sim", test: "TestSplitCountersAreExactWhateverHappens"}
	guardQueue   = guard{"queue", "TestAQueueIsAList", quiet}
	guardOnce    = guard{folder: "counter", test: "TestARetryDoesNotAddAgainWhateverTheCounterBecame"}
	guardSagaSim = guard{folder: "internal/sim", test: "TestSagasEndWholeOrUndoneWhateverHappens"}
	guardSagas   = guard{folder: "saga", test: "TestEverySagaEndsWholeOrUndoneWhateverHappens"}
)

// root is where the module is.
var root = filepath.Join("..", "..")

// plantedBugs are all rules of the tree that can be broken on purpose, and who
// stands guard. The histories see from the outside what the small tests see
// from within.
var plantedBugs = map[string][]guard{
	"wal-torn-frame-accepted":  {guardLog},
	"wal-ack-before-durable":   {guardLog, guardHistory, guardSim},
	"wal-sync-without-fence":   {guardLog},
	"wal-stale-bytes-replayed": {guardLog},
	"wal-recycle-early":        {guardLog},

	"node-emptied-keyspace-stays-open": {{folder: "internal/node", test: "TestAKeyspaceIsClosedBeforeItIsEmptied"}},
	"node-folded-before-cleared":       {{folder: "internal/node", test: "TestShardsAreFoldedWhenNobodyNeedsThem"}},
	"node-frozen-for-good":             {{folder: "internal/node", test: "TestADestinationThatStandsStillKeepsNoRangeFrozen"}},
	"node-marks-astray":                {{folder: "internal/node", test: "TestFoldingLeavesNoMarksAstray"}},
	"node-noted-in-vain":               {{folder: "internal/node", test: "TestAKeyspaceThatAFailedStoreWouldGiveWayToIsRefused"}},
	"node-pin-stays-behind":            {{folder: ".", test: "TestAPinFollowsItsKeyToAnotherStore"}},
	"node-prepare-not-synced":          {{folder: ".", test: "TestATransactionAcrossStoresIsWholeAfterACrash"}},
	"node-source-not-synced":           {{folder: ".", test: "TestACopyHasNothingThatACrashTakesBackAtItsSource"}},
	"node-later-map-given":             {{folder: ".", test: "TestJobsSurviveACrashAtEachPhase"}},
	"node-view-ignores-decisions":      {{folder: ".", test: "TestTransfersAcrossGroupsAreSeenWhole"}},
	"node-scan-misses-the-last-lock":   {{folder: "internal/node", test: "TestAKeyThatEndsAScanIsReadThroughItsLock"}},
	"store-backups-one-by-one":         {{folder: ".", test: "TestABackupUnderLoadIsConsistent"}},
	"store-snapshots-one-by-one":       {{folder: "internal/store", test: "TestSnapshotsOfSeveralStoresAreOfOneMoment"}},

	"serve-unit-half-executed":             {{folder: "internal/serve", test: "TestAUnitOfOneGroupMeetsTransactionsAndMoves"}},
	"serve-cold-reads-overtake":            {{folder: "internal/serve", test: "TestColdReadsOfAPipelineKeepTheirOrder"}},
	"serve-backlog-of-an-emptied-keyspace": {{folder: "internal/serve", test: "TestAPipelineGoesOnInAnEmptiedKeyspace"}},
	"serve-recycles-what-is-under-way":     {{folder: "internal/serve", test: "TestMemoryOfWhatIsUnderWayIsNotUsedAgain"}},
	"serve-refused-comes-last":             {{folder: "internal/serve", test: "TestAWorkerWaitsForNoField"}},
	"serve-cold-staged":                    {{folder: "internal/serve", test: "TestAGroupGetsWhatItKnowsTheRowsOf"}},
	"serve-cold-though-revoked":            {{folder: "internal/serve", test: "TestWhatWasAllowedIsNotDoneWhenItIsNoLonger"}},
	"serve-reads-in-turn":                  {{folder: "internal/serve", test: "TestAReadByItselfTakesNoTurn"}},
	"serve-cold-unit-staged":               {{folder: "internal/serve", test: "TestAGroupGetsSeveralKeysWhenItKnowsTheirRows"}},

	"watch-coalescing-reorders":       {{"watch", "TestWhatIsBehindThePlaceOfAnEventMakesUpForWhatWasNotTold", quiet}, guardSim},
	"watch-cursor-ahead":              {{"watch", "TestWhatIsBehindThePlaceOfAnEventMakesUpForWhatWasNotTold", quiet}, guardSim},
	"watch-joins-ahead":               {{"watch", "TestAWatcherEndsWithWhatTheStoreHas", quiet}, guardSim},
	"watch-joins-behind":              {{"watch", "TestAPlaceAheadOfTheHubIsNotToldAgain", nil}, guardSim},
	"watch-joins-twice":               {{"watch", "TestWhoKnowsMoreThanTheHubAndLessIsToldNothingTwice", nil}},
	"watch-pages-not-aligned":         {{"watch", "TestRowsOfOnePageChangeWhileTheNextIsRead", nil}},
	"watch-reads-before-it-registers": {{"watch", "TestUntilMissesNothing", nil}},

	"rows-stale-fill":           {guardRows},
	"rows-pinned-evicted":       {guardRows},
	"rows-whole-after-eviction": {guardRows},
	"rows-gathered-in-part":     {guardRows},
	"rows-held-evicted":         {guardRows, {folder: ".", test: "TestPinnedRowsAreReadFromMemoryWhateverElseIsRead"}},
	"rows-pin-keeps-old":        {guardRows, guardSim, {folder: ".", test: "TestPinnedKeysAreReadAsTheyAre"}},
	"rows-admit-all":            {{folder: "internal/rows", test: "TestReadsThatComeOnceDoNotDriveOutHotRows"}},
	"rows-batch-torn":           {{folder: ".", test: "TestATransactionAppearsAtOnceToSingleReads"}},

	"cache-stale-put":         {{folder: "cache", test: "TestNoAnswerIsOlderThanAnInvalidationOrATTL"}},
	"cache-two-loads":         {{folder: "cache", test: "TestNoAnswerIsOlderThanAnInvalidationOrATTL"}},
	"cache-gap-without-flush": {{folder: "cache", test: "TestWhoWaitsForTheFeedReadsWhatHeWrote"}, guardSim},

	"command-overlay-skipped": {guardEdges},
	"command-expired-visible": {guardEdges},

	"store-fill-stale":                  {{folder: "internal/store", test: "TestASlowReadDoesNotBringBackAnOldRow"}},
	"store-all-wait-for-the-disk":       {{folder: "internal/store", test: "TestFewWaitForADisk"}},
	"store-crashes-pile-up":             {{folder: "internal/store", test: "TestCrashesDoNotPileUp"}},
	"store-near-waits":                  {{folder: "internal/store", test: "TestWhoMustNotWaitForADiskDoesSoOnce"}},
	"store-publish-before-durable":      {{folder: "internal/store", test: "TestNothingIsVisibleBeforeItIsDurable"}},
	"store-recycle-applied-not-durable": {{folder: "internal/store", test: "TestTheLogIsKeptUntilPebbleHasItForSure"}},

	"txn-read-locks-not-taken":       {guardTxns, guardWay},
	"txn-write-ignores-read-locks":   {guardTxns, guardWay},
	"txn-validation-ignores-intents": {guardTxns, guardWay},
	"txn-digest-by-newest-version":   {guardTxns, guardWay},
	"txn-mark-forgotten":             {guardTxns, guardWay},
	"txn-marks-not-loaded":           {{"internal/txn", "TestAPieceThatIsResolvedStaysSo", quiet}, guardTxns},
	"txn-decisions-not-loaded":       {guardTxns},
	"txn-decide-past-deadline":       {guardTxns},
	"txn-inquiry-overrules":          {guardTxns},
	"txn-abort-not-recorded":         {guardTxns, guardWay},
	"txn-decision-not-kept":          {guardTxns, guardWay},
	"txn-locks-not-taken-back":       {guardTxns},
	"txn-prepare-past-deadline":      {{"internal/txn", "TestAFinishedPartStaysFinished", quiet}},
	"txn-collect-unconfirmed":        {{"internal/txn", "TestADecisionIsKeptUntilNobodyAsks", quiet}},
	"txn-mark-at-start-only":         {{"internal/txn", "TestAPieceThatIsResolvedStaysSo", quiet}, guardWay},
	"txn-old-owner-confirms":         {{"internal/txn", "TestOnlyTheOwnerConfirms", quiet}},
	"txn-range-lock-not-cut":         {{"internal/txn", "TestARangeLockIsCutWithItsRange", quiet}, guardRounds},
	"group-range-lock-not-carried":   {{folder: "internal/node", test: "TestALockOnARangeStaysWhenAShardOfItMoves"}, guardRounds},
	"txn-locked-rows-expire":         {{"internal/txn", "TestARowDoesNotExpireUnderALock", quiet}},
	"txn-holds-overtaken":            {{"internal/txn", "TestHoldsAreGrantedInTheOrderOfAsking", quiet}, guardWay},
	"group-write-passed-by":          {{".", "TestAPlainWriteHasItsTurnAmongTransactions", quiet}},

	"mover-activate-before-release":   {guardMoves, guardSim},
	"mover-source-reads-on":           {guardMoves, guardSim},
	"mover-deletes-skipped":           {guardMoves, guardSim},
	"mover-old-attempt-ingested":      {guardMoves, guardSim},
	"mover-decided-after-rollback":    {{folder: "internal/mover", test: "TestADecisionIsMadeOnceAndOnlyInItsPlace"}},
	"mover-drop-before-activate":      {guardMoves, guardSim},
	"mover-dedup-not-copied":          {guardMoves},
	"mover-drain-leaves-a-shard":      {guardMoves, guardSim},
	"mover-freeze-not-stored":         {guardMoves, guardSim},
	"mover-thaw-not-stored":           {{folder: "internal/mover", test: "TestARangeThatIsThawedIsNotDecided"}},
	"mover-late-clear":                {guardMoves, guardSim},
	"mover-late-freeze":               {{folder: "internal/mover", test: "TestAFreezeThatComesAfterItsThawChangesNothing"}, guardSim},
	"mover-late-prepare":              {guardMoves},
	"mover-floors-forgotten":          {guardMoves, guardSim},
	"mover-second-job":                {guardMoves, guardSim},
	"mover-group-removed-under-a-job": {{folder: "internal/mover", test: "TestAGroupIsNotRemovedWhileAJobNeedsIt"}, guardSim},
	"mover-unmarks-for-others":        {guardMoves},

	"own-joined-before-the-end": {guardMoves},
	"own-joined-as-older":       {{folder: "internal/mover", test: "TestALateCopyFindsThatRangesWereJoined"}},

	"feed-tells-copies":    {guardFeed, guardSim},
	"feed-new-owner-first": {guardFeed, guardSim},
	"feed-place-ahead":     {{folder: "internal/feed", test: "TestWhatWasNotToldComesAgain"}, guardSim},

	"counter-add-to-closed-part":     {guardCounter},
	"counter-sum-piece-by-piece":     {guardCounter},
	"counter-fold-drops-a-part":      {{"internal/sums", "TestAResizeKeepsTheSum", quiet}, guardOnce, guardSplits},
	"counter-once-follows-the-count": {guardOnce},
	"counter-fast-looks-younger":     {{folder: "counter", test: "TestWhatIsTooOldIsReadAgain"}},

	"saga-doubt-ignored":             {guardSagas, guardSagaSim},
	"saga-undo-skips":                {guardSagas, guardSagaSim},
	"saga-cancel-lost":               {guardSagas},
	"saga-owner-ignored":             {{folder: "saga", test: "TestOneRunnerAtATimeWorksOnASaga"}},
	"saga-wake-lost":                 {{folder: "saga", test: "TestARetryThatComesAsTheSagaGetsStuckIsNotLost"}},
	"saga-effect-before-journal":     {{folder: "saga/journal", test: "TestASagaThatCrashesAnywhereEndsWholeOrUndone"}},
	"journal-marks-ignored":          {{folder: "saga/journal", test: "TestASagaOnAStoreThatCrashesAnywhereEndsWholeOrUndone"}},
	"journal-step-apart":             {{folder: "saga/journal", test: "TestARunnerThatWasOvertakenChangesNothing"}},
	"journal-any-revision":           {{folder: "saga/journal", test: "TestAJournalOnAStoreIsAJournal"}},
	"queue-new-epoch-first":          {{"internal/lanes", "TestOfAPointTheOldestBucketIsReady", quiet}, guardQueue, guardQueues},
	"queue-key-out-twice":            {{"internal/lanes", "TestOfAKeyTheOldestIsNext", quiet}, guardQueue, guardQueues},
	"queue-late-ack":                 {{"internal/lanes", "TestALeaseIsMineUntilAnotherHasIt", nil}, guardQueue},
	"queue-publish-to-closed-bucket": {guardQueue},
	"queue-id-of-one-epoch":          {guardQueue},
	"queue-old-id-taken":             {guardQueue},
	"queue-head-runs-ahead":          {guardQueue},
	"queue-manifest-goes-back":       {{folder: "queue", test: "TestAManifestThatWasReadLateIsNotBelieved"}},
	"queue-revival-fails-others":     {{folder: "queue", test: "TestARevivalThatComesTooLateFailsNobodyElse"}},
	"queue-trimmed-untold":           {{folder: "queue", test: "TestAReaderIsToldOfEntriesThatWentWithTheirShard"}},
	"queue-claim-unchecked":          {{folder: "queue", test: "TestAClaimReadsAgainWhatItHasSeen"}},

	"node-index-gate-missing":           {{folder: ".", test: "TestAWriteThatBeganBeforeAnIndexMaintainsIt"}},
	"node-index-barrier-missing":        {{folder: ".", test: "TestAnIndexMissesNoRowThatWasOnItsWay"}},
	"node-decided-not-settled":          {{folder: ".", test: "TestAnIndexThatFollowsHasWhatATransactionAcrossStoresWrote"}},
	"cleave-expires-between-own-writes": {{folder: ".", test: "TestATransactionIsToldWhatComesOfKeysThatExpire"}},
	"cleave-index-entry-not-in-commit":  {{folder: ".", test: "TestATransactionReadsAnIndexWithItsOwnWrites"}},
	"index-old-entry-left":              {{folder: ".", test: "TestATransactionReadsAnIndexWithItsOwnWrites"}, guardSim},
	"cleave-index-verify-one-clock":     {{folder: ".", test: "TestAnIndexThatFollowsIsWellWhileClocksDiffer"}},
	"cleave-index-cursor-apart":         {{folder: ".", test: "TestAnIndexThatFollowsSkipsNothingOverARestart"}},

	"drive-some-changes-taken-for-all": {{folder: "internal/drive", test: "TestADestinationBecomesItsSourceWhoeverBringsWhatWhen"}},
	"store-follow-knows-before":        {{folder: "internal/drive", test: "TestADestinationBecomesItsSourceWhoeverBringsWhatWhen"}, guardSim},
	"store-change-stays-where-it-was":  {{folder: "internal/drive", test: "TestADestinationBecomesItsSourceWhoeverBringsWhatWhen"}, guardSim},
	"drive-placed-over-a-job":          {{folder: ".", test: "TestKeyspacesAreMadeWhileTheirPlaceMoves"}},
	"drive-removed-decider-awaited":    {{folder: "internal/drive", test: "TestAGroupIsRemovedIfTheMapHadIt"}},
	"group-trace-lost":                 {{folder: "internal/group", test: "TestAKeyThatWasLockedInASnapshotIsNamed"}},
	"group-joint-not-taken-back":       {{folder: "internal/group", test: "TestJointRequestsOfOneBatchShareAWriteAndFailAlone"}},
	"group-record-in-batch-unseen":     {{folder: "internal/group", test: "TestARequestAndATransactionOfItInOneBatchAreOne"}, {folder: "internal/group", test: "TestAJointRequestAndATransactionOfItInOneBatchAreOne"}},
	"group-chain-of-one-group":         {{folder: "internal/group", test: "TestAChainStopsInAllGroups"}},
	"group-floor-not-kept":             {{folder: "internal/group", test: "TestVersionsStayAboveARangeThatCame"}},
	"group-still-though-expired":       {{folder: "internal/group", test: "TestARowThatHasExpiredIsNotStillThere"}},
	"group-many-judged-alone":          {{folder: "internal/group", test: "TestWhatATransactionHasSeenAliveDoesNotExpireBefore"}},
	"group-peek-of-two-moments":        {{folder: "internal/group", test: "TestAFieldThatIsDeletedAsItIsWrittenIsNeverRead"}, {folder: "internal/group", test: "TestAFieldThatIsReplacedWithItsHashIsNeverAbsent"}},
	"group-peek-locked-meanwhile":      {{folder: "internal/group", test: "TestWhatATransactionHasSeenAliveDoesNotExpireBefore"}},
	"version-repeated":                 {guardForward, guardHistory, guardSim},
	"clock-back":                       {guardForward, guardHistory, guardSim},
	"dedup-lost":                       {guardRetries, guardHistory, guardSim},

	"hotkey-evicts-any":           {{"hotkey", "TestFrequentKeysAreTrackedAmongAnyNumberOfOthers", quiet}},
	"hotkey-windows-do-not-end":   {{"hotkey", "TestReportsAreThoseOfAllSamplesAsLongAsKeysFit", quiet}},
	"hotkey-one-sample-is-enough": {{"hotkey", "TestReportsAreThoseOfAllSamplesAsLongAsKeysFit", quiet}},
	"key-fanout-misses-a-salt":    {{"key", "TestFanOutHoldsExactlyTheKeysThatStartLikeThat", quiet}, guardSim},
	"table-salts-not-merged":      {guardTable},
	"table-cursor-drops-twins":    {guardTable},
	"table-put-does-not-look":     {guardTable},
	"table-pages-of-many-moments": {{folder: "table", test: "TestOrderedReadsAreOfOneMomentWhileShardsMove"}},
	"table-last-never-gives-up":   {{"table", "TestTheLastRowsAreThoseOfAWalkOverAllBuckets", quiet}},
}

// seeds are of worlds in which the simulator has caught a bug that takes it long to find. They
// are tried first, and say nothing about worlds of later code: then it searches.
var seeds = map[string]int{
	"group-range-lock-not-carried": 8,
	"txn-range-lock-not-cut":       8,
	"index-old-entry-left":         19,
	"mover-drain-leaves-a-shard":   22,
	"watch-cursor-ahead":           40,
}

// A harness that never caught a bug proves nothing: with each bug its guards
// fail, and without one they pass.
func TestPlantedBugsAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds test binaries")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool to build with")
	}
	bugs := slices.Sorted(maps.Keys(plantedBugs))
	if found := bugsInTheTree(t); !slices.Equal(found, bugs) {
		t.Fatalf("the tree has the bugs %q, this test knows %q", found, bugs)
	}
	bin := buildGuards(t, goTool)
	var tasks []guardTask
	seen := map[string]bool{}
	for _, bug := range bugs {
		for _, g := range plantedBugs[bug] {
			if key := g.folder + g.test; !seen[key] {
				seen[key] = true
				tasks = append(tasks, guardTask{g, ""})
			}
			tasks = append(tasks, guardTask{g, bug})
		}
	}
	var wg sync.WaitGroup
	turns := make(chan struct{}, runtime.NumCPU()+1) // some wait for what will not come
	for _, task := range tasks {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			task.check(t, bin)
		})
	}
	wg.Wait()
	if !t.Failed() {
		tally.Add(t, "planted bugs caught", len(bugs))
	}
}

// buildGuards builds the tests of all folders with guards, and returns where
// they are.
func buildGuards(t *testing.T, goTool string) string {
	bin := t.TempDir()
	folders := map[string]bool{}
	for _, guards := range plantedBugs {
		for _, g := range guards {
			folders["./"+g.folder] = true
		}
	}
	args := []string{"test", "-c", "-tags", "plant", "-ldflags", "-s -w", "-o", bin + string(filepath.Separator)}
	build := exec.Command(goTool, append(args, slices.Sorted(maps.Keys(folders))...)...)
	build.Dir = root
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("build the guards: %v\n%s", err, out)
	}
	return bin
}

// guardTask is a guard that runs with a bug, or with none.
type guardTask struct {
	guard
	bug string
}

// tries is how often a guard may run until it catches a bug. Most draw what they do at random,
// and those that catch a rare one in nearly every run do not in each.
const tries = 3

func (k guardTask) check(t *testing.T, bin string) {
	defer func(begun time.Time) {
		t.Logf("%6.2f s %s of %s with %q", time.Since(begun).Seconds(), k.test, k.folder, k.bug)
	}(time.Now())
	if seed := seeds[k.bug]; seed > 0 && k.folder == "internal/sim" {
		if out, err := k.run(bin, k.bug, fmt.Sprint("CLEAVE_SEED=", seed)); caught(out, err) {
			return
		}
	}
	out, err := k.run(bin, k.bug)
	if k.bug == "" {
		if err != nil {
			t.Errorf("%s of %s fails without a bug: %v\n%s", k.test, k.folder, err, out)
		}
		return
	}
	for try := 1; try < tries && !caught(out, err); try++ {
		out, err = k.run(bin, k.bug)
	}
	if !caught(out, err) {
		t.Errorf("%s is not caught by %s of %s in %d runs: %v\n%s", k.bug, k.test, k.folder, tries, err, out)
	}
}

// caught tells whether a guard has failed, as opposed to not having run.
func caught(out string, err error) bool { return err != nil && strings.Contains(out, "FAIL") }

// run runs the guard in a process of its own: a bug is chosen when it starts.
func (g guard) run(bin, bug string, env ...string) (output string, err error) {
	args := []string{"-test.run=^" + g.test + "$", "-test.timeout=60s"}
	if bug == "" {
		args = append(args, "-test.short")
	} else {
		args = append(args, g.flags...)
	}
	name := filepath.Base(g.folder)
	if g.folder == "." {
		name = "cleave"
	}
	c := exec.Command(filepath.Join(bin, name+".test"), args...)
	c.Dir = filepath.Join(root, g.folder)
	c.Env = append(append(os.Environ(), "CLEAVE_PLANT="+bug, "CLEAVE_SOAK=", tally.File+"="), env...)
	out, err := c.CombinedOutput()
	if strings.Contains(string(out), "no tests to run") {
		return string(out), fmt.Errorf("there is no %s", g.test)
	}
	return string(out), err
}

var bugName = regexp.MustCompile(`plant\.Bug\("([^"]+)"\)`)

// bugsInTheTree finds the names of all planted bugs.
func bugsInTheTree(t *testing.T) []string {
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range bugName.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(found))
}
