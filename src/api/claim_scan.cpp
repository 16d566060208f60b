#include "api/claim_scan.h"

#include "api/claim_rows.h"

extern "C" {
extern Datum pgq_claim(PG_FUNCTION_ARGS);
extern Datum pgq_claim_any(PG_FUNCTION_ARGS);
extern Datum pgq_ack_claim(PG_FUNCTION_ARGS);
extern Datum pgq_ack_next(PG_FUNCTION_ARGS);
}

namespace pgq {

static bool claim_scan = true; /* the setting pgq_ext.claim_scan */

/* ---- the functions ---- */

namespace {

struct ClaimFunction
{
	const char *symbol; /* name of the C function */
	PGFunction function;
	ClaimCall call;
	int arguments;
};

} // namespace

static constexpr ClaimFunction functions[] = {
	{"pgq_claim", pgq_claim, call_claim, 6},
	{"pgq_claim_any", pgq_claim_any, call_claim_any, 6},
	{"pgq_ack_claim", pgq_ack_claim, call_ack_claim, 6},
	{"pgq_ack_next", pgq_ack_next, call_ack_next, 5},
};

static constexpr int kMostArguments = 6;

/*
 * Return the number in `functions` of the C function with that symbol, or -1 if no function has
 * that symbol.
 */
static int
number_of_symbol(const char *symbol)
{
	for (int i = 0; i < static_cast<int>(std::size(functions)); i++)
		if (strcmp(functions[i].symbol, symbol) == 0)
			return i;
	return -1;
}

/*
 * Return the number of the function in `functions`, or -1 if `functions` does not have it. The name
 * of the C function is compared first, since fmgr_info() may load the library of a function.
 */
static int
number_of(Oid function)
{
	HeapTuple tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return -1;
	bool is_null = true;
	Datum source = Datum{0};
	auto *declared = reinterpret_cast<Form_pg_proc>(GETSTRUCT(tuple));
	if (declared->prolang == ClanguageId && declared->proretset && !declared->proisstrict &&
		get_typtype(declared->prorettype) == TYPTYPE_COMPOSITE)
		source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &is_null);
	int number = is_null ? -1 : number_of_symbol(TextDatumGetCString(source));
	ReleaseSysCache(tuple);
	if (number < 0)
		return -1;
	FmgrInfo info;
	fmgr_info(function, &info);
	return info.fn_addr == functions[number].function ? number : -1;
}

/* ---- planning ---- */

static Plan *make_plan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *target,
					   List *clauses, List *plans);
static Node *make_state(CustomScan *scan);

static constinit set_rel_pathlist_hook_type previous_hook = nullptr;
static constinit CustomPathMethods path_methods = {.CustomName = "pgq_claim",
												   .PlanCustomPath = make_plan};
static constinit CustomScanMethods scan_methods = {.CustomName = "pgq_claim",
												   .CreateCustomScanState = make_state};

/*
 * List the columns that the query uses, as Vars. Returns false if the query uses the row as a
 * whole.
 */
static bool
list_columns(RelOptInfo *rel, List **columns)
{
	static constexpr int kInto =
		PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_RECURSE_PLACEHOLDERS;
	List *conditions = extract_actual_clauses(rel->baserestrictinfo, false);
	List *used =
		list_concat(pull_var_clause(reinterpret_cast<Node *>(rel->reltarget->exprs), kInto),
					pull_var_clause(reinterpret_cast<Node *>(conditions), kInto));
	int relid = static_cast<int>(rel->relid);
	Bitmapset *listed = nullptr;
	*columns = NIL;
	ListCell *cell;
	foreach (cell, used)
	{
		auto *var = static_cast<Var *>(lfirst(cell));
		if (static_cast<int>(var->varno) != relid)
			continue;
		if (var->varattno <= 0)
			return false;
		if (!bms_is_member(var->varattno, listed))
			*columns = lappend(*columns, var);
		listed = bms_add_member(listed, var->varattno);
	}
	return true;
}

/*
 * Return the call of the function in this item of FROM. Returns nullptr if the item has several
 * functions, or if the node cannot evaluate the arguments of the call.
 */
static FuncExpr *
plain_call(const RelOptInfo *rel, const RangeTblEntry *entry)
{
	if (entry->rtekind != RTE_FUNCTION || entry->funcordinality ||
		list_length(entry->functions) != 1 || !bms_is_empty(rel->lateral_relids) ||
		list_length(rel->pathlist) != 1 ||
		static_cast<Path *>(linitial(rel->pathlist))->pathtype != T_FunctionScan)
		return nullptr;
	Node *call = static_cast<RangeTblFunction *>(linitial(entry->functions))->funcexpr;
	return IsA(call, FuncExpr) && !contain_subplans(call) ? reinterpret_cast<FuncExpr *>(call)
														  : nullptr;
}

/* The planner's hook: replace the path of a FunctionScan. */
static void
replace_path(PlannerInfo *root, RelOptInfo *rel, Index number, RangeTblEntry *entry)
{
	if (previous_hook != nullptr)
		previous_hook(root, rel, number, entry);
	FuncExpr *call = claim_scan ? plain_call(rel, entry) : nullptr;
	int function = call != nullptr ? number_of(call->funcid) : -1;
	List *columns;
	if (function < 0 || list_length(call->args) != functions[function].arguments ||
		!list_columns(rel, &columns))
		return;
	auto *plain = static_cast<Path *>(linitial(rel->pathlist));
	CustomPath *path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.rows = plain->rows;
	path->path.startup_cost = plain->startup_cost;
	path->path.total_cost = plain->total_cost;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION | CUSTOMPATH_SUPPORT_BACKWARD_SCAN;
	path->custom_private = list_make3(call, columns, list_make1_int(function));
	path->methods = &path_methods;
	rel->pathlist = list_make1(path);
}

/*
 * The plan has the call in custom_exprs, so that the server replaces parameters in it, and forgets
 * the plan when the function is changed. custom_private: the index of the function in functions[],
 * then for each column that the query uses its number in the function's result, from 0.
 */
static Plan *
make_plan(PlannerInfo *, RelOptInfo *, CustomPath *path, List *target, List *clauses, List *)
{
	CustomScan *scan = makeNode(CustomScan);
	List *numbers = list_copy(static_cast<List *>(lthird(path->custom_private)));
	ListCell *cell;
	foreach (cell, static_cast<List *>(lsecond(path->custom_private)))
	{
		auto *var = static_cast<Var *>(lfirst(cell));
		auto place = static_cast<AttrNumber>(list_length(scan->custom_scan_tlist) + 1);
		TargetEntry *entry =
			makeTargetEntry(reinterpret_cast<Expr *>(copyObjectImpl(var)), place, nullptr, false);
		scan->custom_scan_tlist = lappend(scan->custom_scan_tlist, entry);
		numbers = lappend_int(numbers, var->varattno - 1);
	}
	scan->scan.plan.targetlist = target;
	scan->scan.plan.qual = extract_actual_clauses(clauses, false);
	scan->scan.scanrelid = 0;
	scan->flags = path->flags;
	scan->custom_exprs = list_make1(linitial(path->custom_private));
	scan->custom_private = numbers;
	scan->methods = &scan_methods;
	return &scan->scan.plan;
}

/* ---- execution ---- */

namespace {

struct ClaimScan
{
	CustomScanState node; /* must come first */
	const ClaimFunction *function;
	FuncExpr *call;
	ExprState *arguments[kMostArguments]; /* NULL if the argument is a constant */
	Bitmapset *params;	/* numbers of the executor's parameters in the arguments; see params_of() */
	bool params_listed; /* params is set */
	FmgrInfo info;
	bool claimed;
	MemoryContext
		/* memory of the rows of the second and later claims; NULL before the second claim */
		memory;
	ClaimRows rows;
};

} // namespace

static ClaimScan *
scan_of(CustomScanState *node)
{
	return reinterpret_cast<ClaimScan *>(node);
}

static bool
add_params(Node *node, void *params)
{
	if (node == nullptr)
		return false;
	if (auto *param = reinterpret_cast<Param *>(node);
		IsA(node, Param) && param->paramkind == PARAM_EXEC)
		*static_cast<Bitmapset **>(params) =
			bms_add_member(*static_cast<Bitmapset **>(params), param->paramid);
	return walk_below(node, add_params, params);
}

/*
 * Return the numbers of the executor's parameters in the arguments. Only a rescan needs them, and
 * most scans are not repeated.
 */
static const Bitmapset *
params_of(ClaimScan *scan)
{
	if (!scan->params_listed)
	{
		MemoryContext caller = MemoryContextSwitchTo(scan->node.ss.ps.state->es_query_cxt);
		(void) add_params(reinterpret_cast<Node *>(scan->call), &scan->params);
		MemoryContextSwitchTo(caller);
		scan->params_listed = true;
	}
	return scan->params;
}

static Const *
as_constant(const FuncExpr *call, int i)
{
	auto *argument = static_cast<Node *>(list_nth(call->args, i));
	return IsA(argument, Const) ? reinterpret_cast<Const *>(argument) : nullptr;
}

static void
begin_scan(CustomScanState *node, EState *estate, int)
{
	ClaimScan *scan = scan_of(node);
	auto *plan = reinterpret_cast<CustomScan *>(node->ss.ps.plan);
	int n = list_length(plan->custom_private) - 1;
	auto *columns = static_cast<int *>(palloc(sizeof(int) * Max(n, 1)));
	for (int i = 0; i < n; i++)
		columns[i] = list_nth_int(plan->custom_private, i + 1);
	scan->function = &functions[linitial_int(plan->custom_private)];
	scan->call = static_cast<FuncExpr *>(linitial(plan->custom_exprs));
	check_execute(scan->call->funcid);
	for (int i = 0; i < scan->function->arguments; i++)
		if (as_constant(scan->call, i) == nullptr)
			scan->arguments[i] =
				ExecInitExpr(static_cast<Expr *>(list_nth(scan->call->args, i)), &node->ss.ps);
	scan->info.fn_addr = scan->function->function;
	scan->info.fn_oid = scan->call->funcid;
	scan->info.fn_nargs = static_cast<short>(scan->function->arguments);
	scan->info.fn_retset = true;
	scan->info.fn_stats = TRACK_FUNC_PL;
	scan->info.fn_mcxt = estate->es_query_cxt;
	scan->info.fn_expr = reinterpret_cast<Node *>(scan->call);
	scan->rows.init(columns, n, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor,
					estate->es_query_cxt);
}

/*
 * Raise 55000 if the type of the rows does not begin with the columns that the library knows. The
 * server numbers the descriptors of types, so that a changed type is checked again.
 */
static void
check_type(Oid type)
{
	static constinit uint64 checked = INVALID_TUPLEDESC_IDENTIFIER;
	uint64 number = lookup_type_cache(type, TYPECACHE_TUPDESC)->tupDesc_identifier;
	if (number == checked)
		return;
	TupleDesc desc = lookup_rowtype_tupdesc(type, -1);
	check_row_type(desc, "claimed_job", claimed_columns, kClaimedColumns);
	ReleaseTupleDesc(desc);
	checked = number;
}

static void
claim(ClaimScan *scan)
{
	ExprContext *context = scan->node.ss.ps.ps_ExprContext;
	MemoryContext caller = MemoryContextSwitchTo(context->ecxt_per_tuple_memory);
	LOCAL_FCINFO(fcinfo, kMostArguments);
	InitFunctionCallInfoData(*fcinfo, &scan->info, scan->info.fn_nargs, scan->call->inputcollid,
							 nullptr, nullptr);
	for (int i = 0; i < fcinfo->nargs; i++)
		if (const Const *constant = as_constant(scan->call, i); constant != nullptr)
			fcinfo->args[i] = {constant->constvalue, constant->constisnull};
		else
			fcinfo->args[i].value =
				ExecEvalExpr(scan->arguments[i], context, &fcinfo->args[i].isnull);
	check_type(scan->call->funcresulttype);
	PgStat_FunctionCallUsage usage;
	pgstat_init_function_usage(fcinfo, &usage);
	scan->function->call(fcinfo, scan->rows.receiver());
	pgstat_end_function_usage(&usage, true);
	MemoryContextSwitchTo(caller);
	scan->claimed = true;
}

static TupleTableSlot *
next_row(ScanState *node)
{
	ClaimScan *scan = scan_of(reinterpret_cast<CustomScanState *>(node));
	if (!scan->claimed)
		claim(scan);
	bool forward = ScanDirectionIsForward(node->ps.state->es_direction);
	(void) scan->rows.next(forward, node->ss_ScanTupleSlot);
	return node->ss_ScanTupleSlot;
}

/*
 * The server calls this function instead of next_row() in a subquery of an UPDATE that waited for
 * another transaction and is evaluated again. Newer minor versions call next_row() there.
 */
static bool
recheck(ScanState *node, TupleTableSlot *)
{
	return !TupIsNull(next_row(node));
}

static TupleTableSlot *
execute_scan(CustomScanState *node)
{
	return ExecScan(&node->ss, next_row, recheck);
}

/*
 * Claim again if a parameter in the arguments has changed, as FunctionScan does. Otherwise return
 * the same rows again.
 */
static void
rescan(CustomScanState *node)
{
	ClaimScan *scan = scan_of(node);
	ExecScanReScan(&node->ss);
	if (node->ss.ps.chgParam == nullptr || !bms_overlap(node->ss.ps.chgParam, params_of(scan)))
		return scan->rows.rewind();
	if (!scan->claimed)
		return;
	if (scan->memory == nullptr)
		scan->memory = AllocSetContextCreate(node->ss.ps.state->es_query_cxt, "pgq_claim rows",
											 ALLOCSET_DEFAULT_SIZES);
	scan->rows.end();
	MemoryContextReset(scan->memory);
	scan->rows.begin(scan->memory);
	scan->claimed = false;
}

static void
end_scan(CustomScanState *node)
{
	scan_of(node)->rows.end();
}

/* EXPLAIN VERBOSE shows the call, as for a FunctionScan. */
static void
explain_scan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	if (!es->verbose)
		return;
	List *context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	char *text =
		deparse_expression(reinterpret_cast<Node *>(scan_of(node)->call), context, true, false);
	ExplainPropertyText("Function Call", text, es);
}

static constinit CustomExecMethods exec_methods = {.CustomName = "pgq_claim",
												   .BeginCustomScan = begin_scan,
												   .ExecCustomScan = execute_scan,
												   .EndCustomScan = end_scan,
												   .ReScanCustomScan = rescan,
												   .ExplainCustomScan = explain_scan};

static Node *
make_state(CustomScan *)
{
	auto *scan = static_cast<ClaimScan *>(palloc0(sizeof(ClaimScan)));
	NodeSetTag(scan, T_CustomScanState);
	scan->node.methods = &exec_methods;
	return reinterpret_cast<Node *>(scan);
}

void
claim_scan_init()
{
	DefineCustomBoolVariable("pgq_ext.claim_scan", "Claims in FROM use a scan node of their own.",
							 "It returns the same rows as a function scan, with less work.",
							 &claim_scan, true, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	RegisterCustomScanMethods(&scan_methods);
	previous_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = replace_path;
}

} // namespace pgq
